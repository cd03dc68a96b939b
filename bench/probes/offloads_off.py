"""Disables checksum and segmentation offloads of a device: offloads_off.py DEVICE. Packets from
it are then single and complete."""

import array
import fcntl
import socket
import struct
import sys

SIOCETHTOOL = 0x8946
ETHTOOL_STXCSUM, ETHTOOL_STSO = 0x17, 0x1F

with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
    for command in (ETHTOOL_STSO, ETHTOOL_STXCSUM):
        value = array.array("B", struct.pack("II", command, 0))
        request = struct.pack("16sP8x", sys.argv[1].encode(), value.buffer_info()[0])
        fcntl.ioctl(control, SIOCETHTOOL, request)
