"""Routes a gateway's packets to the other site through a TUN device, like the sendbox, and becomes
a loop that writes back what it reads: gateway_loop.py PROBE SECONDS."""

import fcntl
import os
import struct
import subprocess
import sys

TUNSETIFF, TUNSETVNETHDRSZ, TUNSETOFFLOAD = 0x400454CA, 0x400454D8, 0x400454D0
IFF_TUN, IFF_NO_PI, IFF_VNET_HDR = 0x0001, 0x1000, 0x4000
CSUM, TSO4, TSO6, USO4, USO6 = 0x01, 0x02, 0x04, 0x20, 0x40
COMMANDS = """
echo 2 > /proc/sys/net/ipv4/conf/loop0/rp_filter
ip address add 192.0.0.8/32 dev loop0
ip link set loop0 txqueuelen 10000 up
tc qdisc replace dev loop0 root noqueue
ip route add 10.2.0.0/16 dev loop0 table 900
ip rule add iif loop0 priority 900 lookup main
ip rule add priority 901 lookup 900
"""

probe, seconds = sys.argv[1:]
fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH14x", b"loop0", IFF_TUN | IFF_NO_PI | IFF_VNET_HDR))
fcntl.ioctl(fd, TUNSETVNETHDRSZ, struct.pack("i", 10))
fcntl.ioctl(fd, TUNSETOFFLOAD, CSUM | TSO4 | TSO6 | USO4 | USO6)
subprocess.run(["sh", "-ec", COMMANDS], check=True)
os.dup2(fd, 0)
os.dup2(fd, 1)
print("ready", file=sys.stderr, flush=True)
os.execv(probe, [probe, "relay", seconds])
