"""Sends the packets of a capture file on an interface: replay.py INTERFACE CAPTURE ROUNDS
BITS_PER_SECOND (0: as fast as possible). Each round has another VLAN, as from another
router. It prints one JSON object."""

import json
import socket
import struct
import sys
import time

# Overhead of a frame: preamble, check sequence, gap.
OVERHEAD = 24
# The kernel's queue or its memory is full.
FULL = (11, 12, 105)


def packets(path):
    """The frames of a pcap file in this machine's order."""
    data = open(path, "rb").read()
    at, found = 24, []
    while at + 16 <= len(data):
        _, _, captured, _ = struct.unpack_from("=IIII", data, at)
        found.append(data[at + 16 : at + 16 + captured])
        at += 16 + captured
    return found


def tagged(frames, vlan):
    """With an IEEE 802.1Q tag behind the addresses."""
    tag = struct.pack(">HH", 0x8100, vlan)
    return [frame[:12] + tag + frame[12:] for frame in frames]


def put(link, frame):
    while True:
        try:
            return link.send(frame)
        except OSError as error:
            if error.errno not in FULL:
                raise


def replay(link, rounds, rate):
    """Sends on time, or as soon as possible; returns the nanoseconds."""
    begin = now = time.monotonic_ns()
    due = 0.0
    for frames in rounds:
        for frame in frames:
            if rate:
                while now - begin < due:
                    now = time.monotonic_ns()
                due += (len(frame) + OVERHEAD) * 8e9 / rate
            put(link, frame)
    return time.monotonic_ns() - begin


interface, capture, rounds, rate = sys.argv[1:]
frames = packets(capture)
rounds = [tagged(frames, vlan) for vlan in range(1, int(rounds) + 1)]
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
link.bind((interface, 0))
link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
print("ready", flush=True)
sys.stdin.readline()
nanos = replay(link, rounds, float(rate))
octets = sum(len(frame) + OVERHEAD for one in rounds for frame in one)
print(json.dumps({"packets": sum(map(len, rounds)), "octets": octets, "nanos": nanos}))
