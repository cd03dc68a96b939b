#!/usr/bin/env python3
"""A Chord ring over UDP, and lookups of random keys in it.

Source: I. Stoica, R. Morris, D. Karger, M. F. Kaashoek, H. Balakrishnan, "Chord: A Scalable
Peer-to-peer Lookup Service for Internet Applications", SIGCOMM 2001, sections 4 and 5: 160-bit
identifiers by SHA-1, a finger table, and a ring that nodes join through any member and keep by
stabilise, notify and fix_fingers (figure 7). Lookups are recursive: each node forwards the request
to its closest preceding finger, and the predecessor of the key answers the origin directly.
Left out, as nodes do not fail here: successor lists, leaving, stored values.

    chord.py node --join h1      a member; h1 itself starts the ring
    chord.py drive               waits until the ring is whole, lets every member look keys up
    chord.py --self-test

The members are those hosts of the lab (/etc/hosts) that --members matches. A member only uses this
list to check answers. Each lookup is one line of JSON on the standard output:
{"lookup": 3, "key": "9a0f…", "path": ["h1", "h7", "h3"], "ms": 71.3, "owner": "h4",
"right": true, "tries": 1}; the path is the origin and those that the request was forwarded to.
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import heapq
import itertools
import json
import random
import socket
import sys
import time
from typing import Any, Callable

BITS = 160
PORT = 4000
DRIVER_PORT = 4001
RETRY = 2.0  # seconds; far above any round trip of the labs, so that only losses are repeated
STABILISE = 0.3
FIX_FINGER = 0.02
LASTING = 10  # fingers found as they were: all that are different, with dozens of nodes

Message = dict[str, Any]
Address = tuple[str, int]


def identifier(name: str) -> int:
    """The place of a node on the ring."""
    return int.from_bytes(hashlib.sha1(name.encode()).digest(), "big")


def between(x: int, a: int, b: int) -> bool:
    """Whether x is in the open arc (a, b); the whole ring but a, if a == b."""
    return a < x < b if a < b else x > a or x < b


def within(x: int, a: int, b: int) -> bool:
    """Whether x is in the half-open arc (a, b]; the whole ring, if a == b."""
    return x == b or a == b or between(x, a, b)


def owner(key: int, ring: list[tuple[int, str]]) -> str:
    """The successor of a key among all members, sorted: what a lookup must find."""
    return next((name for place, name in ring if place >= key), ring[0][1])


def ring_of(pattern: str) -> list[tuple[int, str]]:
    """All members by their place, as the list of hosts has them."""
    with open("/etc/hosts", encoding="utf-8") as lines:
        names = {word for line in lines for word in line.split("#")[0].split()[1:]}
    return sorted((identifier(name), name) for name in fnmatch.filter(names, pattern))


class Endpoint:
    """Datagrams of JSON, requests that are repeated until answered, and timers, in one thread."""

    def __init__(self, port: int) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("0.0.0.0", port))
        self.timers: list[tuple[float, int, Callable[[], None]]] = []
        self.serial = itertools.count(1)
        self.waiting: dict[int, Callable[[Message], None]] = {}
        self.addresses: dict[str, str] = {}

    def send(self, to: Address, message: Message) -> None:
        """Sends one datagram to a host's name and port."""
        if to[0] not in self.addresses:
            found = socket.getaddrinfo(to[0], to[1], socket.AF_INET, socket.SOCK_DGRAM)
            self.addresses[to[0]] = found[0][4][0]
        self.socket.sendto(json.dumps(message).encode(), (self.addresses[to[0]], to[1]))

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Calls `action` once."""
        heapq.heappush(self.timers, (time.monotonic() + seconds, next(self.serial), action))

    def request(
        self, to: Address, message: Message, answer: Callable[[Message], None]
    ) -> None:
        """Sends a message until an answer carries its serial number."""
        serial = next(self.serial)
        tries = itertools.count(1)

        def attempt() -> None:
            if serial in self.waiting:
                self.send(to, message | {"serial": serial, "tries": next(tries)})
                self.after(RETRY, attempt)

        self.waiting[serial] = answer
        attempt()

    def step(self, handle: Callable[[Message, Address], None]) -> None:
        """Waits for the next timer or datagram and acts on it."""
        now = time.monotonic()
        while self.timers and self.timers[0][0] <= now:
            heapq.heappop(self.timers)[2]()
        self.socket.settimeout(max(self.timers[0][0] - now, 1e-4) if self.timers else None)
        try:
            data, source = self.socket.recvfrom(65536)
        except TimeoutError:
            return
        message: Message = json.loads(data)
        if message["type"] == "answer":
            self.waiting.pop(message["serial"], lambda _: None)(message)
        else:
            handle(message, source)


class Node:
    """A member of the ring."""

    def __init__(self, name: str, members: str, seed: int) -> None:
        self.name = name
        self.id = identifier(name)
        self.successor = name
        self.predecessor: str | None = None
        self.fingers: list[str] = [name] * BITS
        self.next_finger = 0
        self.unchanged = 0  # fingers fixed in a row that were right before
        self.wire = Endpoint(PORT)
        self.members = members
        self.random = random.Random(f"{seed} {name}")
        self.ring: list[tuple[int, str]] = []

    def preceding(self, key: int) -> str:
        """The finger closest before a key; the successor, if there is none between."""
        for name in reversed(self.fingers):
            if between(identifier(name), self.id, key):
                return name
        return self.successor

    def handle(self, message: Message, source: Address) -> None:
        """Acts on a request of another node."""
        answer: Message = {"type": "answer", "serial": message["serial"]}
        match message["type"]:
            case "find":
                self.find(message)
            case "state":
                self.wire.send(source, answer | self.state())
            case "notify":
                self.notified(message["node"])
            case "begin":
                self.wire.send(source, answer)
                if not self.ring:
                    self.begin(message, source)

    def state(self) -> Message:
        """What others ask for."""
        return {
            "successor": self.successor,
            "predecessor": self.predecessor,
            "unchanged": self.unchanged,
        }

    def find(self, message: Message) -> None:
        """Answers who owns a key, or forwards the question one finger nearer to it."""
        key = int(message["key"], 16)
        if within(key, self.id, identifier(self.successor)):
            answer: Message = {"type": "answer", "serial": message["serial"]}
            answer |= {"owner": self.successor, "path": message["path"] + [self.name]}
            answer |= {"tries": message["tries"]}
            self.wire.send((message["origin"], PORT), answer)
        else:
            onward = message | {"path": message["path"] + [self.name]}
            self.wire.send((self.preceding(key), PORT), onward)

    def lookup(self, key: int, via: str, answer: Callable[[Message], None]) -> None:
        """Finds the owner of a key."""
        question: Message = {"type": "find", "key": f"{key:x}", "path": [], "origin": self.name}
        self.wire.request((via, PORT), question, answer)

    def stabilise(self) -> None:
        """Asks the successor for its predecessor, which may have come between."""

        def learn(state: Message) -> None:
            found = state["predecessor"]
            nearer = found and between(
                identifier(found), self.id, identifier(self.successor)
            )
            if nearer:
                self.successor, self.unchanged = found, 0
            self.wire.send(
                (self.successor, PORT), {"type": "notify", "node": self.name, "serial": 0}
            )
            if nearer:
                self.ask_successor(learn)
            else:
                self.wire.after(STABILISE, self.stabilise)

        self.ask_successor(learn)

    def ask_successor(self, learn: Callable[[Message], None]) -> None:
        """Asks the successor for its state; a node alone asks itself."""
        if self.successor == self.name:
            learn(self.state())
        else:
            self.wire.request((self.successor, PORT), {"type": "state"}, learn)

    def notified(self, name: str) -> None:
        """Another node believes to be our predecessor."""
        old = self.predecessor
        if old is None or between(identifier(name), identifier(old), self.id):
            self.predecessor = name

    def fix_fingers(self) -> None:
        """Looks up one finger; those up to the successor need no lookup."""
        distance = (identifier(self.successor) - self.id) % (1 << BITS)
        if self.next_finger >= BITS:
            self.next_finger = 0
        while self.next_finger < BITS and (1 << self.next_finger) <= distance:
            self.fingers[self.next_finger] = self.successor
            self.next_finger += 1
        if self.next_finger >= BITS:
            self.wire.after(FIX_FINGER, self.fix_fingers)
            return
        index = self.next_finger

        def learn(answer: Message) -> None:
            self.unchanged = (
                self.unchanged + 1 if self.fingers[index] == answer["owner"] else 0
            )
            self.fingers[index] = answer["owner"]
            self.next_finger = index + 1
            self.wire.after(FIX_FINGER, self.fix_fingers)

        self.lookup((self.id + (1 << index)) % (1 << BITS), self.name, learn)

    def begin(self, order: Message, driver: Address) -> None:
        """Looks up random keys, at random times with a fixed mean between them."""
        self.ring = ring_of(self.members)
        left = set(range(order["lookups"]))

        def one(number: int) -> None:
            key = self.random.getrandbits(BITS)
            started = time.monotonic()

            def report(answer: Message) -> None:
                line = {"lookup": number, "key": f"{key:040x}", "path": answer["path"]}
                line |= {"ms": round((time.monotonic() - started) * 1e3, 3)}
                line |= {"owner": answer["owner"], "tries": answer["tries"]}
                line |= {"right": answer["owner"] == owner(key, self.ring)}
                print(json.dumps(line), flush=True)
                left.discard(number)
                if not left:
                    done = {"type": "done", "node": self.name}
                    self.wire.request(driver, done, lambda _: None)

            self.lookup(key, self.name, report)
            if number + 1 < order["lookups"]:
                wait = self.random.expovariate(1 / order["every"])
                self.wire.after(wait, lambda: one(number + 1))

        one(0)

    def run(self, join: str) -> None:
        """Joins the ring and serves it until killed."""

        def joined(answer: Message) -> None:
            self.successor = answer["owner"]
            print(json.dumps({"joined": self.successor}), flush=True)
            self.stabilise()
            self.fix_fingers()

        if join == self.name:
            joined({"owner": self.name})
        else:
            self.lookup(self.id, join, joined)
        while True:
            self.wire.step(self.handle)


def drive(options: argparse.Namespace) -> None:
    """Waits until every member has its right successor and lasting fingers, then starts lookups."""
    ring = ring_of(options.members)
    names = [name for _, name in ring]
    wire = Endpoint(DRIVER_PORT)
    started = time.monotonic()
    order = {"type": "begin", "lookups": options.lookups, "every": options.every}
    done: set[str] = set()
    ready: set[str] = set()

    def ask(name: str, successor: str) -> None:
        def learn(state: Message) -> None:
            if state["successor"] == successor and state["unchanged"] >= LASTING:
                ready.add(name)
            else:
                wire.after(STABILISE, lambda: ask(name, successor))

        wire.request((name, PORT), {"type": "state"}, learn)

    def handle(message: Message, source: Address) -> None:
        wire.send(source, {"type": "answer", "serial": message["serial"]})
        done.add(message["node"])

    for index, name in enumerate(names):
        ask(name, names[(index + 1) % len(names)])
    while len(ready) < len(names):
        wire.step(handle)
    print(json.dumps({"members": len(names), "settled": time.monotonic() - started}), flush=True)
    for name in names:
        wire.request((name, PORT), order, lambda _: None)
    while len(done) < len(names):
        wire.step(handle)
    print(json.dumps({"finished": time.monotonic() - started}), flush=True)


def self_test() -> None:
    """Arithmetic on the ring, and lookups over finger tables without a network."""
    assert between(5, 3, 7) and not between(3, 3, 7) and not between(7, 3, 7)
    assert between(1, 250, 5) and between(252, 250, 5) and not between(100, 250, 5)
    assert within(7, 3, 7) and within(3, 3, 3) and not within(3, 3, 7)
    assert identifier("h1") == int(hashlib.sha1(b"h1").hexdigest(), 16)
    ring = sorted((identifier(f"h{i}"), f"h{i}") for i in range(64))
    assert owner(ring[9][0], ring) == ring[9][1] and owner(ring[9][0] + 1, ring) == ring[10][1]
    assert owner(ring[-1][0] + 1, ring) == ring[0][1]
    places = {name: place for place, name in ring}
    node = Node.__new__(Node)
    generator, hops = random.Random(1), []
    for _ in range(500):
        key = generator.getrandbits(BITS)
        at, count = generator.choice(ring)[1], 0
        while True:
            node.id, node.name = places[at], at
            node.fingers = [owner((node.id + (1 << i)) % (1 << BITS), ring) for i in range(BITS)]
            node.successor = node.fingers[0]
            if within(key, node.id, places[node.successor]):
                break
            at, count = node.preceding(key), count + 1
        assert node.successor == owner(key, ring)
        hops.append(count)
    # Half of log2 64 is 3 (section 6.3 of the paper).
    assert 2.4 < sum(hops) / len(hops) < 3.6, sum(hops) / len(hops)
    print("ok")


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description="Chord lookups")
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("role", nargs="?", choices=["node", "drive"])
    parser.add_argument("--join", default="h1", help="a member, or the node's own name")
    parser.add_argument("--members", default="h*", help="names of the hosts that are members")
    parser.add_argument("--lookups", type=int, default=25, help="of each node")
    parser.add_argument("--every", type=float, default=0.2, help="mean seconds between them")
    parser.add_argument("--seed", type=int, default=1, help="of keys and times")
    options = parser.parse_args()
    if options.self_test:
        self_test()
    elif options.role == "node":
        Node(socket.gethostname(), options.members, options.seed).run(options.join)
    elif options.role == "drive":
        drive(options)
    else:
        parser.error("node or drive?")


if __name__ == "__main__":
    sys.exit(main())
