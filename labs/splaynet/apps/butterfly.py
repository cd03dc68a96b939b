#!/usr/bin/env python3
"""Multicast over the butterfly, with random linear network coding and without.

Sources: R. Ahlswede, N. Cai, S.-Y. R. Li, R. W. Yeung, "Network Information Flow", IEEE Trans. Inf.
Theory 46(4), 2000 (the butterfly, figure 7); T. Ho et al., "A Random Linear Network Coding Approach
to Multicast", IEEE Trans. Inf. Theory 52(10), 2006; generations and coding vectors in packets as
P. A. Chou, Y. Wu, K. Jain, "Practical Network Coding", Allerton 2003.

    s -> a, s -> b, a -> t1, a -> c, b -> c, b -> t2, c -> d, d -> t1, d -> t2: all of one rate R

s has a file for both t1 and t2. The schemes, and what each sink gets at most:

coding   2 R: s sends random combinations to a and b (independent ones: it draws again until they
         are), c sends random combinations of what comes from both
packing  1.5 R, the best without coding: three trees of R/2 each, the third around the middle link
trees    R: the two trees over the middle link, R/2 each

    butterfly.py NODE --scheme coding     on each of the nodes
    butterfly.py --self-test

s paces its packets at the rate of its links and repeats, for those that sinks report missing, tree
or combination; reports go back over a and b. Sinks decode by Gaussian elimination, check the
content and write one line of JSON: {"node": "t1", "seconds": 3.5, "bytes": 8000000, "right": true,
"packets": 5716, "useless": 3, "busy": 0.2}; busy is the share of a core that the program used.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import socket
import struct
import sys
import time
from typing import Iterator

import field

PORT = 4200
COUNT = 16  # packets of a generation: the cost of coding grows with it, its overhead is 1 B each
PAYLOAD = 1400
WIRE = 8 + PAYLOAD + 28 + 38  # with our header, IPv4's and UDP's, and Ethernet's
HEADER = struct.Struct("!ccBxI")  # kind, tree or edge, number in the generation, generation
DATA, REPORT = b"D", b"R"
VIA_A, VIA_B, AROUND = b"a", b"b", b"c"  # trees; with coding, the edge from s
AFRESH = COUNT  # instead of a packet's number: a combination drawn for it alone
REPORT_EVERY = 0.02
REPEAT_TIMEOUT = 0.3  # seconds before a packet is repeated again
SILENCE = 0.15  # seconds after which a sink takes what is missing for lost
SLACK = 6  # generations; what is missing from older ones than that, on every way, is lost
AHEAD = 4  # packets that wait for one link while the other has none
BACKLOG = 32  # steps; who waits behind more would be repeated once more before it is sent
PACE = 0.98  # of the links' rate, so that queues drain after a stall
BURST = 0.06  # seconds that a stalled sender catches up with at most

Step = list[tuple[str, bytes, int, int]]  # to whom, tree, generation, packet


def content(size: int, seed: int) -> bytes:
    """The file, which everyone can make and so check."""
    return random.Random(f"butterfly {seed}").randbytes(size)


def generations(size: int) -> int:
    """How many generations a file has; the last is filled up with zeros."""
    return -(-size // (COUNT * PAYLOAD))


def steps_of(scheme: str, generation: int) -> list[Step]:
    """What s sends of a generation in turn; the packets of a step leave together."""
    if scheme == "coding":
        return [
            [("a", VIA_A, generation, at), ("b", VIA_B, generation, at)]
            for at in range(COUNT // 2)
        ]
    pattern = (VIA_A, VIA_B, AROUND) if scheme == "packing" else (VIA_A, VIA_B)
    steps: list[Step] = []
    for at in range(COUNT):
        # The pattern continues across generations, so that trees are used equally.
        steps += repair_of(pattern[(generation * COUNT + at) % len(pattern)], generation, at)
    return steps


def repair_of(tree: bytes, generation: int, packet: int) -> list[Step]:
    """One packet on its tree."""
    to = {VIA_A: ["a"], VIA_B: ["b"], AROUND: ["a", "b"]}[tree]
    return [[(neighbour, tree, generation, packet) for neighbour in to]]


def onward(node: str, tree: bytes, scheme: str) -> list[str]:
    """Where a node passes a packet on to."""
    coded = scheme == "coding"
    match node:
        case "a":
            return ["t1", "c"] if coded or tree == VIA_A else ["t1"]
        case "b":
            return ["t2", "c"] if coded or tree == VIA_B else ["t2"]
        case "c":
            return ["d"]
        case "d":
            return ["t1", "t2"] if coded else ["t2" if tree == VIA_A else "t1"]
    return []


class Wire:
    """Datagrams to and from neighbours."""

    def __init__(self, port: int) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self.socket.bind(("0.0.0.0", port))
        self.addresses: dict[str, tuple[str, int]] = {}
        self.began: tuple[float, float] | None = None

    def send(self, to: str, packet: bytes) -> None:
        """To a neighbour: of a host's addresses, the first is that on our common link."""
        if to not in self.addresses:
            found = socket.getaddrinfo(to, PORT, socket.AF_INET, socket.SOCK_DGRAM)
            self.addresses[to] = found[0][4][:2]
        self.socket.sendto(packet, self.addresses[to])

    def receive(self, wait: float | None) -> bytes | None:
        """The next datagram, if one comes in time."""
        self.socket.settimeout(wait)
        try:
            packet = self.socket.recv(2048)
        except (TimeoutError, BlockingIOError):
            return None
        if self.began is None and packet[:1] == DATA:
            self.start()
        return packet

    def start(self) -> None:
        """The clock starts with the first packet of the file."""
        self.began = (time.monotonic(), time.process_time())

    def line(self, node: str) -> dict[str, object]:
        """How long since then, and how busy we were."""
        began, used = self.began or (time.monotonic(), time.process_time())
        seconds = time.monotonic() - began
        busy = (time.process_time() - used) / max(seconds, 1e-9)
        return {"node": node, "seconds": round(seconds, 4), "busy": round(busy, 3)}


class Source:
    """s: paces steps, and repeats what sinks report missing."""

    def __init__(self, options: argparse.Namespace, wire: Wire) -> None:
        self.scheme: str = options.scheme
        self.wire = wire
        size = options.size
        self.total = generations(size)
        data = content(size, options.seed).ljust(self.total * COUNT * PAYLOAD, b"\0")
        self.cut = [data[at : at + PAYLOAD] for at in range(0, len(data), PAYLOAD)]
        bytes_on_wire = WIRE + (COUNT if self.scheme == "coding" else 0)
        # With two trees of R/2, both over the middle link, s may fill its links only by half.
        share = 0.5 if self.scheme == "trees" else 1.0
        self.gap = bytes_on_wire * 8 / (options.rate * 1e6 * PACE * share)
        self.rng = random.Random(f"coding {options.seed}")
        self.rows: tuple[int, list[bytes]] = (-1, [])
        self.factors: list[bytes] = []
        self.passed = -1  # the newest generation that was sent as a whole
        self.again: dict[int, float] = {}  # when a generation may be repeated once more
        self.repairs: list[Step] = []
        self.repeated = 0
        self.verdicts: dict[bytes, bool] = {}

    def steps(self) -> Iterator[Step]:
        """The file once."""
        for generation in range(self.total):
            yield from steps_of(self.scheme, generation)
            self.passed = generation

    def packet(self, tree: bytes, generation: int, number: int) -> bytes:
        """A packet of the file, or a random combination of its generation."""
        header = HEADER.pack(DATA, tree, number, generation)
        first = generation * COUNT
        if self.scheme != "coding":
            return header + self.cut[first + number]
        if self.rows[0] != generation:
            self.rows = (generation, field.unit_rows(self.cut[first : first + COUNT]))
            self.factors = field.independent_vectors(COUNT, self.rng)
        if number == AFRESH:
            return header + field.random_combination(self.rows[1], self.rng)
        at = number if tree == VIA_A else number + COUNT // 2
        return header + field.combine(self.rows[1], list(self.factors[at]))

    def learn(self, report: bytes) -> None:
        """A sink's report: its name, its final verdict, and its packets by generation."""
        sink, verdict = report[1:2], report[2]
        if verdict:
            self.verdicts[sink] = verdict == 1
        now = time.monotonic()
        for at in range(HEADER.size, len(report), 6):
            generation, have = struct.unpack_from("!IH", report, at)
            if len(self.repairs) > BACKLOG:
                break
            if generation > self.passed or now < self.again.get(generation, now):
                continue
            self.again[generation] = now + REPEAT_TIMEOUT
            if self.scheme == "coding":
                fresh = [("a", VIA_A, generation, AFRESH), ("b", VIA_B, generation, AFRESH)]
                again = [fresh] * ((COUNT - have + 1) // 2)
            else:
                lacking = {number for number in range(COUNT) if not have >> number & 1}
                again = [
                    step for step in steps_of(self.scheme, generation) if step[0][3] in lacking
                ]
            self.repeated += len(again)
            self.repairs += again

    def run(self) -> int:
        """Sends until both sinks have everything; 1 if one of them has it wrong."""
        time.sleep(0.2)  # the others' sockets are bound, but one of their cores may be ours
        self.wire.start()
        first, due = self.steps(), time.monotonic()
        waiting: dict[str, list[tuple[str, bytes, int, int]]] = {"a": [], "b": []}
        while len(self.verdicts) < 2:
            while report := self.wire.receive(0):
                self.learn(report)
            # To keep both links busy, a few packets without a partner in their step wait for one.
            while not all(waiting.values()) and max(map(len, waiting.values())) < AHEAD:
                step = self.repairs.pop(0) if self.repairs else next(first, None)
                if step is None:
                    break
                for part in step:
                    waiting[part[0]].append(part)
            if not any(waiting.values()):
                if report := self.wire.receive(0.005):
                    self.learn(report)
                due = time.monotonic()
                continue
            time.sleep(max(due - time.monotonic(), 0))
            for queue in waiting.values():
                if queue:
                    to, tree, generation, number = queue.pop(0)
                    self.wire.send(to, self.packet(tree, generation, number))
            due = max(due + self.gap, time.monotonic() - BURST)
        line = self.wire.line("s") | {"repeated": self.repeated, "generations": self.total}
        print(json.dumps(line), flush=True)
        return 0 if all(self.verdicts.values()) else 1


class Relay:
    """a, b, c and d: pass packets on; c combines, if the scheme is coding."""

    def __init__(self, node: str, scheme: str, wire: Wire) -> None:
        self.node, self.scheme, self.wire = node, scheme, wire
        self.rng = random.Random(f"relay {node}")
        self.rows: dict[int, list[bytes]] = {}
        self.counts: dict[int, dict[bytes, int]] = {}
        self.emitted: dict[int, int] = {}
        self.newest = 0

    def emit(self, generation: int, wanted: int) -> list[bytes]:
        """Combinations of a generation's packets until there were so many."""
        fresh = []
        while self.emitted[generation] < wanted:
            self.emitted[generation] += 1
            header = HEADER.pack(DATA, AROUND, 0, generation)
            fresh.append(header + field.random_combination(self.rows[generation], self.rng))
        return fresh

    def recode(self, packet: bytes) -> list[bytes]:
        """One combination for each pair of packets from both sides, what fits the link to d; where
        one side lost some, the others follow when the generation is over."""
        _, edge, _, generation = HEADER.unpack_from(packet)
        if generation not in self.rows:
            self.rows[generation] = []
            self.counts[generation] = {VIA_A: 0, VIA_B: 0}
            self.emitted[generation] = 0
        self.rows[generation].append(packet[HEADER.size :])
        self.counts[generation][edge] += 1
        fresh = self.emit(generation, min(self.counts[generation].values()))
        self.newest = max(self.newest, generation)
        for old in [at for at in self.rows if at < self.newest - 3 and at != generation]:
            fresh += self.emit(old, max(self.counts[old].values()))
            del self.rows[old], self.counts[old], self.emitted[old]
        return fresh

    def run(self) -> None:
        """Relays until the lab ends."""
        recodes = self.node == "c" and self.scheme == "coding"
        while True:
            packet = self.wire.receive(None)
            assert packet is not None
            if packet[:1] == REPORT:
                self.wire.send("s", packet)
                continue
            for out in self.recode(packet) if recodes else [packet]:
                for to in onward(self.node, packet[1:2], self.scheme):
                    self.wire.send(to, out)


class Sink:
    """t1 and t2: collect generations and report what is missing."""

    def __init__(self, node: str, options: argparse.Namespace, wire: Wire) -> None:
        self.node, self.scheme, self.wire = node, options.scheme, wire
        self.size, self.seed = options.size, options.seed
        self.total = generations(options.size)
        self.decoders: dict[int, field.Decoder] = {}
        self.plain: dict[int, dict[int, bytes]] = {}
        self.parts: dict[int, bytes] = {}
        self.packets = self.useless = 0
        self.verdict = 0
        direct = {VIA_A} if node == "t1" else {VIA_B}
        ways = {"coding": direct | {AROUND}, "trees": {VIA_A, VIA_B}}
        ways["packing"] = {VIA_A, VIA_B, AROUND}
        self.newest = dict.fromkeys(ways[options.scheme], -1)  # generation, by the way it came
        self.last_received = time.monotonic()

    def take(self, packet: bytes) -> None:
        """One packet of the file."""
        _, way, number, generation = HEADER.unpack_from(packet)
        body = packet[HEADER.size :]
        self.packets += 1
        self.newest[way] = max(self.newest[way], generation)
        self.last_received = time.monotonic()
        if generation in self.parts:
            self.useless += 1
        elif self.scheme == "coding":
            decoder = self.decoders.setdefault(generation, field.Decoder(COUNT))
            self.useless += not decoder.add(body)
            if decoder.rank == COUNT:
                self.parts[generation] = b"".join(decoder.packets())
                del self.decoders[generation]
        else:
            have = self.plain.setdefault(generation, {})
            self.useless += number in have
            have[number] = body
            if len(have) == COUNT:
                self.parts[generation] = b"".join(have[at] for at in range(COUNT))
                del self.plain[generation]

    def check(self) -> None:
        """Compares the file with what it must be, once it is whole."""
        if len(self.parts) == self.total and not self.verdict:
            data = b"".join(self.parts[at] for at in range(self.total))[: self.size]
            self.verdict = 1 if data == content(self.size, self.seed) else 2

    def report(self) -> bytes:
        """What is missing, for s. Ways keep the order: newer packets tell that older are lost."""
        report = HEADER.pack(REPORT, self.node[1:].encode(), self.verdict, 0)
        silent = self.packets > 0 and time.monotonic() - self.last_received > SILENCE
        due = self.total if silent else min(self.newest.values()) - SLACK
        lacking = (at for at in range(due) if at not in self.parts)
        for generation, _ in zip(lacking, range(100)):
            if self.scheme == "coding":
                have = self.decoders[generation].rank if generation in self.decoders else 0
            else:
                have = sum(1 << number for number in self.plain.get(generation, ()))
            report += struct.pack("!IH", generation, have)
        return report

    def run(self) -> None:
        """Receives, and reports until the lab ends."""
        neighbour = "a" if self.node == "t1" else "b"
        next_report = time.monotonic()
        while True:
            packet = self.wire.receive(REPORT_EVERY)
            if packet:
                self.take(packet)
                if len(self.parts) == self.total and not self.verdict:
                    line = self.wire.line(self.node)
                    self.check()
                    line |= {"bytes": self.size, "right": self.verdict == 1}
                    line |= {"packets": self.packets, "useless": self.useless}
                    print(json.dumps(line), flush=True)
            if time.monotonic() >= next_report:
                self.wire.send(neighbour, self.report())
                next_report = time.monotonic() + REPORT_EVERY


def walk(options: argparse.Namespace) -> dict[str, Sink]:
    """All nodes at once and without a network; an edge's load is counted where it matters."""
    source = Source(options, Wire(0))
    relays = {node: Relay(node, options.scheme, Wire(0)) for node in "abcd"}
    sinks = {node: Sink(node, options, Wire(0)) for node in ("t1", "t2")}
    load: dict[tuple[str, str], int] = {}

    def deliver(origin: str, node: str, packet: bytes) -> None:
        load[origin, node] = load.get((origin, node), 0) + 1
        if node in sinks:
            sinks[node].take(packet)
            return
        coding = node == "c" and options.scheme == "coding"
        for out in relays[node].recode(packet) if coding else [packet]:
            for to in onward(node, packet[1:2], options.scheme):
                deliver(node, to, out)

    for step in source.steps():
        for to, tree, generation, number in step:
            deliver("s", to, source.packet(tree, generation, number))
    packets = source.total * COUNT
    gain = {"coding": 2, "packing": 1.5, "trees": 1}[options.scheme]
    busiest = max(load.values())
    assert abs(busiest - packets / gain) <= 1, (options.scheme, busiest, packets / gain)
    return sinks


def self_test() -> None:
    """The field, and each scheme without losses: loads of edges, and what sinks get."""
    field.self_test()
    size = 30 * COUNT * PAYLOAD - 77
    for scheme in ("coding", "packing", "trees"):
        options = argparse.Namespace(scheme=scheme, size=size, seed=3, rate=10)
        for sink in walk(options).values():
            sink.check()
            assert sink.verdict == 1 and sink.useless == 0, (scheme, sink.useless)
    print("ok")


def main() -> int:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description="multicast over the butterfly")
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("node", nargs="?", choices=["s", "a", "b", "c", "d", "t1", "t2"])
    parser.add_argument("--scheme", choices=["coding", "packing", "trees"], default="coding")
    parser.add_argument("--size", type=int, default=8_000_000, help="bytes of the file")
    parser.add_argument("--rate", type=float, default=10, help="of the links, in Mbit/s")
    parser.add_argument("--seed", type=int, default=1, help="of file and factors")
    options = parser.parse_args()
    if options.self_test:
        self_test()
        return 0
    if not options.node:
        parser.error("which node?")
    if options.node == "s":
        return Source(options, Wire(PORT)).run()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    wire = Wire(PORT)
    program: Sink | Relay = (
        Sink(options.node, options, wire)
        if options.node.startswith("t")
        else Relay(options.node, options.scheme, wire)
    )
    print(json.dumps({"listening": PORT}), flush=True)
    try:
        program.run()
    finally:
        if isinstance(program, Relay):
            print(json.dumps(wire.line(options.node)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
