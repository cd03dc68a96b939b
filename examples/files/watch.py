"""Prints a line for each TCP packet that reaches the host's interfaces, its own or not."""

import socket
import struct

ALL = 0x0003  # ETH_P_ALL
TCP = 6

with socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ALL)) as tap:
    print("watching", flush=True)
    while True:
        packet = tap.recv(65536)
        if packet[0] >> 4 != 4 or packet[9] != TCP:
            continue
        header = (packet[0] & 15) * 4
        source, destination = map(socket.inet_ntoa, (packet[12:16], packet[16:20]))
        ports = struct.unpack("!HH", packet[header : header + 4])
        print(f"{source}:{ports[0]} > {destination}:{ports[1]} {len(packet)} B", flush=True)
