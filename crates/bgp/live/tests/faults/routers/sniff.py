import socket, struct, sys, time
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 20)
s.bind((sys.argv[1], 0))
out = open(sys.argv[2], "wb", 0)
out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1))
while True:
    frame = s.recv(262144)
    if frame[12:14] == b"\x08\x00" and frame[23] == 6:
        now = time.time_ns()
        out.write(struct.pack("<IIII", now // 10**9, now // 1000 % 10**6, len(frame), len(frame)) + frame)
