#!/usr/bin/env python3
"""Cooperative multicast of a file over parallel n-ary trees.

Sources: E. W. Biersack, P. Rodriguez, P. Felber, "Performance Analysis of Peer-to-Peer Networks
for File Distribution", QofIS 2004 (PTree^k: the file is cut into k parts, each part goes down a
separate tree, and a node is an inner node of at most one tree); M. Castro et al., "SplitStream:
High-Bandwidth Multicast in Cooperative Environments", SOSP 2003. With as many trees as a tree has
branches, each node uploads about as much as it downloads, and all complete after about the time
that one copy takes on an access link.

    multicast.py source --nodes 20    host "h1": sends each stripe to the head of its tree
    multicast.py node --nodes 20      hosts "h2" to "h21": receive all stripes, forward one
    multicast.py --self-test

Stripe t is the blocks t, t + k, t + 2k, … of the file. Edges of trees are TCP connections, opened
by the parents. A node writes one line of JSON when it has the file and has checked its hash:
{"node": "h3", "seconds": 7.9, "bytes": 4000000, "right": true, …}; seconds count from the moment
its first byte arrived, "clock" is the machine's monotonic clock then and "done" at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import math
import random
import socket
import sys
import time

PORT = 4100
DONE_PORT = 4101
BLOCK = 16 * 1024
# Max bytes that a node queues for a slow child; above it the node stops reading.
BACKLOG = 64 * 1024


class Forest:
    """The trees, the same to everyone who knows the number of nodes."""

    def __init__(self, nodes: int, trees: int, arity: int) -> None:
        inner = math.ceil((nodes - 1) / arity)
        self.trees, self.orders = trees, []
        self.arity = arity
        for tree in range(trees):
            own = [node for node in range(1, nodes + 1) if node % trees == tree]
            if len(own) < inner:
                raise ValueError(f"{trees} trees of arity {arity} are too many or too deep")
            # Inner nodes come first, in the order of a heap; those of other trees are its leaves.
            # The first leaf differs by tree, so that the last inner nodes differ too.
            rest = [node for node in range(1, nodes + 1) if node not in own[:inner]]
            cut = tree * len(rest) // trees
            self.orders.append(own[:inner] + rest[cut:] + rest[:cut])

    def head(self, tree: int) -> int:
        """Whom the source sends the stripe to."""
        return self.orders[tree][0]

    def children(self, tree: int, node: int) -> list[int]:
        """Whom a node forwards the stripe to."""
        order = self.orders[tree]
        first = order.index(node) * self.arity + 1
        return order[first : first + self.arity]

    def depth(self, tree: int) -> int:
        """The longest path from the source, in edges."""
        position, edges = len(self.orders[tree]) - 1, 1
        while position > 0:
            position, edges = (position - 1) // self.arity, edges + 1
        return edges


def host(node: int) -> str:
    """Where a node is; 0 is the source."""
    return f"h{node + 1}"


def content(size: int, seed: int) -> bytes:
    """The file, which everyone can make and so check."""
    return random.Random(f"multicast {seed}").randbytes(size)


def stripe_blocks(size: int, trees: int, tree: int) -> range:
    """The offsets in the file of a stripe's blocks."""
    return range(tree * BLOCK, size, trees * BLOCK)


def stripe_size(size: int, trees: int, tree: int) -> int:
    """The bytes of a stripe."""
    return sum(min(BLOCK, size - at) for at in stripe_blocks(size, trees, tree))


async def connect(name: str, tree: int, window: int) -> asyncio.StreamWriter:
    """Opens an edge of a tree: a connection that begins with the tree's number."""
    while True:
        carrier = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        carrier.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
        carrier.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, window)
        carrier.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(carrier, (name, PORT))
        except OSError:
            carrier.close()
            await asyncio.sleep(0.05)
            continue
        _, writer = await asyncio.open_connection(sock=carrier)
        writer.transport.set_write_buffer_limits(high=BACKLOG)
        writer.write(bytes([tree]))
        return writer


async def source(options: argparse.Namespace) -> None:
    """Sends each stripe down its tree, and waits for all to have everything."""
    forest = Forest(options.nodes, options.trees, options.arity)
    data = content(options.size, options.seed)
    done: set[str] = set()
    finished = asyncio.Event()

    async def report(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        done.add((await reader.readline()).decode().strip())
        if len(done) == options.nodes:
            finished.set()
        writer.close()

    async def stripe(tree: int) -> None:
        writer = await connect(host(forest.head(tree)), tree, options.window)
        for at in stripe_blocks(options.size, options.trees, tree):
            writer.write(data[at : at + BLOCK])
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(report, "0.0.0.0", DONE_PORT)
    started = time.monotonic()
    await asyncio.gather(*(stripe(tree) for tree in range(options.trees)))
    await finished.wait()
    server.close()
    line = {"source": round(time.monotonic() - started, 4), "clock": started}
    line |= {"trees": options.trees, "depth": max(map(forest.depth, range(options.trees)))}
    print(json.dumps(line), flush=True)


class Node:
    """Receives all stripes and forwards those of the tree in which it is an inner node."""

    def __init__(self, number: int, options: argparse.Namespace) -> None:
        self.number = number
        self.options = options
        self.forest = Forest(options.nodes, options.trees, options.arity)
        self.file = bytearray(options.size)
        self.first: float | None = None
        self.missing = options.trees
        self.complete = asyncio.Event()
        self.received = 0.0
        self.forwarded = 0

    async def stripe(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Takes one stripe from its parent; a full child holds the parent back."""
        tree = (await reader.readexactly(1))[0]
        self.first = self.first or time.monotonic()
        options = self.options
        children = [
            await connect(host(child), tree, options.window)
            for child in self.forest.children(tree, self.number)
        ]
        for at in stripe_blocks(options.size, options.trees, tree):
            block = await reader.readexactly(min(BLOCK, options.size - at))
            self.file[at : at + len(block)] = block
            for child in children:
                child.write(block)
                self.forwarded += len(block)
            for child in children:
                await child.drain()
        self.missing -= 1
        if self.missing == 0:
            self.received = time.monotonic()
            self.complete.set()
        for child in children:
            child.close()
            await child.wait_closed()
        writer.close()

    async def run(self) -> bool:
        """Serves until the file is here and forwarded; tells whether it is right."""
        server = await asyncio.start_server(self.stripe, "0.0.0.0", PORT, limit=4 * BLOCK)
        print(json.dumps({"listening": PORT}), flush=True)
        await self.complete.wait()
        whole = hashlib.sha256(self.file).digest()
        right = whole == hashlib.sha256(content(len(self.file), self.options.seed)).digest()
        assert self.first is not None
        line = {"node": host(self.number), "seconds": round(self.received - self.first, 4)}
        line |= {"clock": self.first, "done": self.received, "bytes": len(self.file)}
        line |= {"forwarded": self.forwarded, "cpu": time.process_time(), "right": right}
        print(json.dumps(line), flush=True)
        _, writer = await asyncio.open_connection(host(0), DONE_PORT)
        writer.write(f"{host(self.number)}\n".encode())
        await writer.drain()
        writer.close()
        # Serves until the end of the lab: its children may still be reading.
        async with server:
            await asyncio.sleep(math.inf if right else 0)
        return right


def self_test() -> None:
    """Every tree reaches every node once, and no node is an inner node of two trees."""
    shapes = [(20, 4, 4), (21, 4, 4), (7, 3, 3), (13, 2, 2), (40, 3, 4), (2, 1, 1)]
    for nodes, trees, arity in shapes:
        forest = Forest(nodes, trees, arity)
        inner: list[int] = []
        for tree in range(trees):
            reached = [forest.head(tree)]
            for node in reached:
                reached += forest.children(tree, node)
            assert sorted(reached) == list(range(1, nodes + 1)), (nodes, trees, arity)
            inner += [node for node in reached if forest.children(tree, node)]
            assert max(len(forest.children(tree, node)) for node in reached) <= arity
            assert forest.depth(tree) <= 2 + math.log(max(nodes, 2), max(arity, 2))
        assert len(inner) == len(set(inner)), "an inner node of two trees"
    try:
        Forest(20, 5, 2)
        raise AssertionError("too many trees for disjoint inner nodes")
    except ValueError:
        pass
    for size in (1, BLOCK, 10 * BLOCK + 7, 1_000_000):
        blocks = sorted(at for tree in range(3) for at in stripe_blocks(size, 3, tree))
        assert blocks == list(range(0, size, BLOCK))
        assert sum(stripe_size(size, 3, tree) for tree in range(3)) == size
    assert content(100, 1) == content(100, 1) != content(100, 2)
    print("ok")


def main() -> int:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description="multicast over parallel n-ary trees")
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("role", nargs="?", choices=["source", "node"])
    parser.add_argument("--nodes", type=int, default=20)
    parser.add_argument("--trees", type=int, default=4)
    parser.add_argument("--arity", type=int, default=4)
    parser.add_argument("--size", type=int, default=4_000_000, help="bytes of the file")
    parser.add_argument("--window", type=int, default=128 * 1024, help="send buffer of an edge")
    parser.add_argument("--seed", type=int, default=1, help="of the file")
    options = parser.parse_args()
    if options.self_test:
        self_test()
    elif options.role == "source":
        asyncio.run(source(options))
    elif options.role == "node":
        number = int(socket.gethostname().removeprefix("h")) - 1
        return 0 if asyncio.run(Node(number, options).run()) else 1
    else:
        parser.error("source or node?")
    return 0


if __name__ == "__main__":
    sys.exit(main())
