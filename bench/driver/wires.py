"""Collects packets live from an interface."""

import signal
import sys
import time
from pathlib import Path

from bgpdata import COLLECT
from machine import NETARIUM, PROBE, PROBES, Failure, Pair, finish, folder, last_json, start

# The measured process has priority over all others except the measuring one.
FIRST, BEFORE = ["chrt", "--fifo", "1"], ["chrt", "--fifo", "2"]
# Packets of the kernel's buffer for both sides: 64 MiB.
BUFFER_KIB = 65_536


def listening(space):
    """Waits until a process captures in this namespace."""
    table = Path(f"/proc/{space.pid}/net/packet")
    for _ in range(2000):
        if len(table.read_text().splitlines()) > 1:
            return
        time.sleep(0.005)
    raise Failure("no process captures packets")


def send(pair, capture, rounds, rate, listener):
    """Replays a capture into the pair while a process listens, and ends that process. Returns the
    outputs of the sender and the listener."""
    words = [sys.executable, PROBES / "replay.py", "v0", capture, rounds, rate]
    sender = start(pair.a.inside(*words), stdin=-1)
    try:
        if sender.stdout.readline().strip() != "ready":
            raise Failure("no sender: " + sender.stderr.read().strip()[-300:])
        listening(pair.b)
        sent = last_json(finish(sender, 60, "go\n"))
        time.sleep(0.5)
        listener.send_signal(signal.SIGINT)
        output, errors = listener.communicate(timeout=60)
        return sent, output, errors
    finally:
        for process in (sender, listener):
            if process.poll() is None:
                process.kill()
                process.communicate()


def collected(capture, rounds, rate, place):
    """Packets over veth into `netarium collect`, with its archive in a folder there."""
    with Pair() as pair, folder(place) as place:
        pair.join_by_veth()
        out = Path(place) / "archive"
        out.mkdir()
        watcher = start([*BEFORE, PROBE, "collector", "appearing", out])
        words = [*FIRST, NETARIUM, "collect", "--interface", "v0", "--out", out, *COLLECT]
        words += ["--rotate", "24 h", "--json", "--quiet"]
        listener = start(pair.b.inside(*words))
        try:
            sent, output, _ = send(pair, capture, rounds, rate, listener)
            return sent, last_json(output), last_json(finish(watcher, 30))
        finally:
            if watcher.poll() is None:
                watcher.kill()
                watcher.communicate()


def dumped(capture, rounds, rate):
    """Packets that tcpdump's kernel buffer dropped."""
    with Pair() as pair, folder() as place:
        pair.join_by_veth()
        words = [*FIRST, "tcpdump", "-i", "v0", "-n", "-s", "0", "-B", BUFFER_KIB, "-w"]
        words += [Path(place) / "all.pcap", "-Z", "root", "vlan and tcp port 179"]
        listener = start(pair.b.inside(*words))
        _, _, errors = send(pair, capture, rounds, rate, listener)
        for line in errors.splitlines():
            if "dropped by kernel" in line:
                return int(line.split()[0])
        raise Failure("tcpdump did not report dropped packets: " + errors[-200:])


def beside_tcpdump(table, row, what, capture, rounds, rate, place):
    """The same packets into tcpdump and into the collector."""
    dropped = table.attempt("tcpdump", lambda: dumped(capture, rounds, rate))
    if dropped is not None:
        table.peer(row, f"{what} tcpdump", "dropped", "packets", dropped)
    sent, said, seen = collected(capture, rounds, rate, place)
    other = (f"{what} tcpdump", "dropped")
    table.ours(row, what, "sent at", "Gbit/s", sent["octets"] * 8 / sent["nanos"])
    table.ours(row, what, "packets", "/s", sent["packets"] / sent["nanos"] * 1e9)
    drops = sent["packets"] - said["segments"]
    table.ours(row, what, "dropped", "packets", drops, other, at_most=0)
    table.ours(row, what, "octets missing", "", said["missing_bytes"], at_most=0)
    for share in ("p50", "p99", "max"):
        # If all processors are busy, packets wait in the kernel's ring.
        must = {"at_most": 5} if share == "p99" and rate else {}
        age = seen["age"][f"{share}_ns"] / 1e6
        table.ours(row, what, f"on disk, {share}", "ms", age, **must)
    for share in ("p99", "max"):
        late = seen["late"][f"{share}_ns"] / 1e6
        table.ours(row, what, f"machine late, {share}", "ms", late)
