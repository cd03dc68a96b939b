"""The sendbox's data path, compared with a loop that copies packets and with the kernel alone."""

import os
import sys
import time
from contextlib import contextmanager
from pathlib import Path

from figures import SEGMENT, Goodput
from machine import NETARIUM, PROBE, PROBES, Failure, Namespace, folder, run, start
from peers import PORT, tcp


SEND = """
[bundle.b]
remote = "10.2.0.0/16"
peer = "192.0.2.2"
key = "benchmark"
control = "constant:100 Gbit/s"
scheduler = "{scheduler}"
"""

RECEIVE = """
[bundle.b]
local = "10.2.0.0/16"
remote = "10.1.0.0/16"
peer = "192.0.2.1"
key = "benchmark"
"""


IDLE_BUNDLES = 1000
IDLE = """
[bundle.b{0}]
id = {1}
{2} = "10.2.{3}.{4}"
peer = "{5}"
key = "benchmark"
"""


class Sites:
    """Host, gateway, gateway, host: the first gateway is where a box or a loop runs."""

    ADDRESS = "10.2.0.2"

    def __init__(self):
        self.spaces = [Namespace() for _ in range(4)]
        self.a, self.near, self.far, self.b = self.spaces

    def __enter__(self):
        names = ("a0", "lan", "wan", "wan", "lan", "b0")
        for number in range(3):
            left, right = self.spaces[number], self.spaces[number + 1]
            ends = [names[2 * number], "netns", left.pid, "type", "veth", "peer", "name"]
            run(["ip", "link", "add", *ends, names[2 * number + 1], "netns", right.pid])
        for space, addresses, routes in (
            (self.a, {"a0": "10.1.0.2/24"}, ["default via 10.1.0.1"]),
            (self.near, {"lan": "10.1.0.1/24", "wan": "192.0.2.1/24"}, ["10.2.0.0/16 via 192.0.2.2"]),
            (self.far, {"wan": "192.0.2.2/24", "lan": "10.2.0.1/24"}, ["10.1.0.0/16 via 192.0.2.1"]),
            (self.b, {"b0": "10.2.0.2/24"}, ["default via 10.2.0.1"]),
        ):
            lines = ["echo 1 > /proc/sys/net/ipv4/ip_forward"]
            for device, address in addresses.items():
                lines += [f"ip address add {address} dev {device}", f"ip link set {device} up"]
            lines += [f"ip route add {route}" for route in routes]
            run(space.inside("sh", "-ec", "\n".join(lines)))
        # As on separate machines: the CPU time of a gateway does not count for the
        # previous one.
        steer = "mount -t sysfs none /sys; for f in /sys/class/net/*/queues/rx-0/rps_cpus; do "
        steer += f"echo {(1 << os.cpu_count()) - 1:x} > $f; done"
        for space in (self.far, self.b):
            run(space.inside("unshare", "--mount", "sh", "-ec", steer))
        return self

    def __exit__(self, *_):
        for space in self.spaces:
            space.close()


def processor(process):
    """Nanoseconds that all threads of a process have used."""
    tasks = Path(f"/proc/{process.pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)


def measured(sites, seconds, process=None):
    """Gbit/s that arrive, and microseconds of a process for each full segment."""
    before = processor(process) if process else 0
    logs = tcp(sites, seconds)
    after = processor(process) if process else 0
    packets = sum(log[-1][1] for log in logs) / SEGMENT
    return Goodput(logs, 0.9).mean / 1e9, (after - before) / packets / 1e3


def ready(process, stream, wanted):
    line = stream.readline()
    if wanted not in line:
        raise Failure(f"{process.args[0]} did not start: {line}{process.stderr.read()[-300:]}")


def forwarded(seconds):
    """The kernel alone."""
    with Sites() as sites:
        return measured(sites, seconds)[0]


def copied(seconds):
    """A loop that reads super-packets from a TUN device and writes them back."""
    with Sites() as sites:
        words = [sys.executable, PROBES / "gateway_loop.py", PROBE, seconds + 10]
        loop = start(sites.near.inside(*words))
        try:
            ready(loop, loop.stderr, "ready")
            return measured(sites, seconds, loop)
        finally:
            loop.kill()
            loop.communicate()


@contextmanager
def boxes(sites, receive, send):
    """Receivebox and sendbox of these configurations."""
    started = []
    with folder() as place:
        try:
            for space, role, text in ((sites.far, "receive", receive), (sites.near, "send", send)):
                config = Path(place) / f"{role}.toml"
                config.write_text(f'status = "{place}/{role}.sock"\n{text}')
                words = [NETARIUM, "bundle", role, "--json", "--config", config]
                started.append(start(space.inside(*words)))
                ready(started[-1], started[-1].stdout, "ready")
            time.sleep(0.5)
            yield started
        finally:
            for box in started:
                box.kill()
                box.communicate()


def boxed(seconds, scheduler):
    """Both gateways, at a rate that limits nothing."""
    with Sites() as sites, boxes(sites, RECEIVE, SEND.format(scheduler=scheduler)) as (far, near):
        receiver = processor(far)
        rate, cost = measured(sites, seconds, near)
        packets = rate * 1e9 / 8 / SEGMENT * seconds
        return rate, cost, (processor(far) - receiver) / packets / 1e3


def idle(seconds):
    """Percent of a core and megabytes of both gateways, with many idle bundles."""
    ends = (("local", "192.0.2.1"), ("remote", "192.0.2.2"))
    texts = [
        "".join(
            IDLE.format(n, n + 1, key, n // 256, n % 256, peer) for n in range(IDLE_BUNDLES)
        )
        for key, peer in ends
    ]
    with Sites() as sites, boxes(sites, *texts) as started:
        before = [processor(box) for box in started]
        time.sleep(seconds)
        used = [processor(box) - first for box, first in zip(started, before)]
        memory = [Path(f"/proc/{box.pid}/statm").read_text().split()[1] for box in started]
        page = os.sysconf("SC_PAGESIZE")
        return [used / seconds / 1e7 for used in used], [int(count) * page / 1e6 for count in memory]


def bundle(table, repetitions, short):
    """The sendbox of a gateway without a rate limit: one TCP connection, MTU 1500."""
    seconds = 3 if short else 5
    for _ in range(repetitions):
        plain = table.attempt("kernel", lambda: forwarded(seconds))
        if plain:
            table.peer("bundle", "kernel", "goodput", "Gbit/s", plain)
        loop = table.attempt("loop", lambda: copied(seconds))
        if loop:
            table.peer("bundle", "loop", "goodput", "Gbit/s", loop[0])
            table.peer("bundle", "loop", "processor", "us/packet", loop[1])
        for scheduler in ("sfq", "fq-codel"):
            rate, cost, receiver = boxed(seconds, scheduler)
            beside = (("loop", "goodput"), ("kernel", "goodput"))
            table.ours("bundle", scheduler, "goodput", "Gbit/s", rate, *beside, ratio=0.7)
            table.ours("bundle", scheduler, "sendbox", "us/packet", cost, ("loop", "processor"))
            table.ours("bundle", scheduler, "receivebox", "us/packet", receiver)
        used, memory = idle(2 * seconds)
        for box, share, size in zip(("receivebox", "sendbox"), used, memory):
            table.ours("bundle", f"{IDLE_BUNDLES} idle", box, "% of a core", share, at_most=2)
            table.ours("bundle", f"{IDLE_BUNDLES} idle", f"{box} memory", "MB", size, at_most=200)


ROWS = {"bundle": bundle}
