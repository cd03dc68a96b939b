"""Mininet: hosts on one bridge, without limits on the links. For the system's own Python, which
has the module."""

import json
import sys
import time

from mininet.log import setLogLevel
from mininet.net import Mininet
from mininet.nodelib import LinuxBridge
from mininet.topo import SingleSwitchTopo


def available():
    with open("/proc/meminfo") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))


setLogLevel("error")
before = available()
begin = time.monotonic()
net = Mininet(SingleSwitchTopo(k=int(sys.argv[1])), switch=LinuxBridge, controller=None)
net.start()
up = time.monotonic()
memory = before - available()
net.stop()
down = time.monotonic()
print(json.dumps({"up_s": up - begin, "down_s": down - up, "memory_kb": memory}))
