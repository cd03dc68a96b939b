"""Traffic between two agents, compared with plain UDP over the same kind of link."""

import os

import cluster
from machine import PROBE, Failure, Pair, finish, last_json, start

PORT = 9000
MTU = 1500
# Bytes of a packet or super-packet, by format on the wire.
SIZES = {"super-packets": 65_000, "single MTUs": 1_460, "small packets": 100}
LAB = """
[lab]
name = "between-agents"
duration = "SECONDS s"
model = "collapsed"
sharing = "max-min"
window = "off"
interval = "100 ms"
[cluster]
apart = [["a", "b"]]
[node.a]
[node.b]
[[link]]
ends = ["a", "b"]
delay = "2 ms"
[[flow]]
name = "bulk"
from = "a"
to = "b"
duration = "SECONDS s"
window = "12 MB"
"""


def between(way, size, seconds):
    """Bits and packets a second from one namespace to another, and processor time of both ends
    for each gigabyte that arrived."""
    with Pair() as pair:
        pair.join_by_veth()
        # Two machines would have separate processors.
        cores = sorted(os.sched_getaffinity(0))
        first, last = (["taskset", "--cpu-list", cores[at]] for at in (0, -1))
        words = [*last, PROBE, "trunk-receive", way, PORT, 2 * seconds + 5]
        receiver = start(pair.b.inside(*words))
        if receiver.stdout.readline().strip() != "ready":
            raise Failure("no receiver: " + receiver.stderr.read().strip()[-300:])
        to = f"{Pair.ADDRESS}:{PORT}"
        words = [*first, PROBE, "trunk-send", way, to, seconds, size, MTU]
        sent = last_json(finish(start(pair.a.inside(*words)), seconds + 30))
        got = last_json(finish(receiver, 30))
    elapsed = got["ns"] / 1e9
    cpu = (sent["cpu_ns"] / sent["sent"] + got["cpu_ns"] / got["bytes"]) / 2
    return got["bytes"] * 8 / elapsed, got["packets"] / elapsed, cpu


def tcp(seconds):
    """A TCP stream between hosts of a lab that are on two agents: goodput in steady state, and what
    the trunks lost."""
    record = cluster.run(LAB.replace("SECONDS", str(seconds)), 2)
    flow = record["flows"][0]
    lost = sum(way["lost"] for way in record["cluster"]["trunks"])
    return flow["goodput_bit_per_s"], lost


def trunk(table, repetitions, short):
    """Goodput between two agents, compared with trains of plain UDP."""
    seconds = 2 if short else 5
    ways = {"plain": "plain UDP", "clear": "authenticated", "sealed": "encrypted"}
    for _ in range(repetitions):
        for what, size in SIZES.items():
            for way, name in ways.items():
                bits, packets, cpu = between(way, size, seconds)
                subject = f"{name}, {what}"
                if way == "plain":
                    table.peer("cluster-trunk", subject, "goodput", "Gbit/s", bits / 1e9)
                    table.peer("cluster-trunk", subject, "processor", "s/GB", cpu)
                    continue
                plain = f"plain UDP, {what}"
                # Plain datagrams have no packet boundaries.
                must = {"ratio": 0.7} if size == max(SIZES.values()) else {}
                value, beside = bits / 1e9, (plain, "goodput")
                table.ours("cluster-trunk", subject, "goodput", "Gbit/s", value, beside, **must)
                table.ours("cluster-trunk", subject, "packets", "1000/s", packets / 1e3)
                beside = (plain, "processor")
                table.ours("cluster-trunk", subject, "processor", "s/GB", cpu, beside)
        bits, lost = tcp(seconds)
        subject, beside = "TCP between hosts on two agents", ("plain UDP, super-packets", "goodput")
        table.ours("cluster-trunk", subject, "goodput", "Gbit/s", bits / 1e9, beside, ratio=0.7)
        table.ours("cluster-trunk", subject, "lost datagrams", "", lost)


ROWS = {"cluster-trunk": trunk}
