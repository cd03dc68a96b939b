"""A BGP speaker that replays a recorded table over a real TCP session, as often as its script says.

The table is an MRT file, or a folder with files of an archive: the UPDATEs of one peer (the first,
or --peer), bit for bit. The script is a list of moments and actions, in seconds since the start:

    0 announce  20 withdraw  30 reset  31 announce  50 end

announce sends the table, withdraw takes back every prefix of it, reset ends the session by a
NOTIFICATION and opens another, drop ends the connection without one, end is an orderly end. An
action that is due while another goes on follows it. A line of JSON on standard output tells what
each action sent and when, and on how many connections the router's OPEN was accepted so far.
"""

import argparse
import bz2
import gzip
import ipaddress
import json
import os
import pathlib
import select
import socket
import struct
import sys
import time

MARKER = b"\xff" * 16
OPEN, UPDATE, NOTIFICATION, KEEPALIVE = 1, 2, 3, 4
LONGEST = 4096
ADMINISTRATIVE_RESET = bytes([6, 4])
ADMINISTRATIVE_SHUTDOWN = bytes([6, 2])


def message(kind, body=b""):
    return MARKER + struct.pack("!HB", 19 + len(body), kind) + body


def opening(asn, identifier, hold):
    def capability(code, value=b""):
        return bytes([code, len(value)]) + value

    listed = capability(1, struct.pack("!HBB", 1, 0, 1)) + capability(2)
    listed += capability(65, struct.pack("!I", asn))
    short = asn if asn < 1 << 16 else 23456
    parameters = bytes([2, len(listed)]) + listed
    body = struct.pack("!BHH", 4, short, hold) + ipaddress.ip_address(identifier).packed
    return message(OPEN, body + bytes([len(parameters)]) + parameters)


def contents(path):
    opener = {".gz": gzip.open, ".bz2": bz2.open}.get(path.suffix, open)
    with opener(path, "rb") as file:
        return file.read()


def files(path):
    while not path.exists():
        time.sleep(0.1)
    found = [path] if path.is_file() else sorted(path.rglob("updates.*"))
    return [file for file in found if file.suffix not in (".json", ".part", ".tmp")]


def updates(path, peer=None):
    """The UPDATEs of a peer in BGP4MP and BGP4MP_ET records with AS numbers of four octets."""
    for file in files(path):
        data = contents(file)
        at = 0
        while at + 12 <= len(data):
            kind, subtype, length = struct.unpack_from("!HHI", data, at + 4)
            body = at + 12
            at = body + length
            if kind == 17:
                body += 4
            elif kind != 16:
                continue
            if subtype != 4 or data[body + 11] != 1:
                continue
            address = data[body + 12:body + 16]
            peer = peer or address
            if address == peer and data[body + 20 + 18] == UPDATE:
                yield data[body + 20:at]


def prefixes(update):
    """The encoded IPv4 prefixes that an UPDATE announces."""
    withdrawn, = struct.unpack_from("!H", update, 19)
    attributes, = struct.unpack_from("!H", update, 21 + withdrawn)
    at = 23 + withdrawn + attributes
    while at < len(update):
        end = at + 1 + (update[at] + 7) // 8
        yield update[at:end]
        at = end


def table(path, peer, limit):
    """The UPDATEs that announce the first `limit` prefixes, and those that withdraw them."""
    announced, routes = [], {}
    for update in updates(path, peer):
        own = list(prefixes(update))
        if limit and len(routes) + len(own) > limit:
            break
        announced.append(update)
        routes.update(dict.fromkeys(own))
    withdrawn, batch, size = [], [], 0

    def flush():
        body = b"".join(batch)
        withdrawn.append(message(UPDATE, struct.pack("!H", len(body)) + body + b"\0\0"))

    for prefix in routes:
        if size + len(prefix) > LONGEST - 23:
            flush()
            batch, size = [], 0
        batch.append(prefix)
        size += len(prefix)
    if batch:
        flush()
    return announced, withdrawn, len(routes)


class Session:
    accepted = 0

    def __init__(self, options):
        self.options = options
        # A router may still be busy with the end of the session before.
        for _ in range(300):
            try:
                return self.establish()
            except OSError:
                self.socket.close()
                time.sleep(0.2)
        sys.exit("the router refuses the session")

    def establish(self):
        self.buffer = b""
        self.socket = socket.socket()
        # Losses are the network's doing here; bbr would push through them.
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.settimeout(10)
        self.socket.bind((self.options.local, 0))
        self.socket.connect((self.options.router, 179))
        self.socket.sendall(opening(self.options.asn, self.options.local, self.options.hold))
        ready = set()
        while ready != {OPEN, KEEPALIVE}:
            for kind, body in self.received():
                ready.add(kind)
                if kind == OPEN:
                    Session.accepted += 1
                    self.socket.sendall(message(KEEPALIVE))
                elif kind != KEEPALIVE:
                    raise ConnectionRefusedError(f"the router sent {kind} {body.hex()}")
        self.socket.setblocking(False)
        self.alive = time.monotonic()

    def received(self):
        """Whole messages that came."""
        try:
            got = self.socket.recv(1 << 16)
        except BlockingIOError:
            return
        if not got:
            raise ConnectionResetError("the router closed the connection")
        self.buffer += got
        while len(self.buffer) >= 19:
            length, kind = struct.unpack_from("!HB", self.buffer, 16)
            if len(self.buffer) < length:
                return
            body, self.buffer = self.buffer[19:length], self.buffer[length:]
            yield kind, body

    def heed(self):
        for kind, body in self.received():
            if kind == NOTIFICATION:
                raise ConnectionResetError(f"the router ended the session: {body.hex()}")

    def send(self, data):
        view = memoryview(data)
        while view:
            readable, writable, _ = select.select([self.socket], [self.socket], [], 1)
            if readable:
                self.heed()
            if writable:
                view = view[self.socket.send(view[:1 << 16]):]
        self.alive = time.monotonic()

    def rest(self, until):
        """Stays until a moment."""
        while (left := until - time.monotonic()) > 0:
            if time.monotonic() - self.alive > self.options.hold / 3:
                self.send(message(KEEPALIVE))
            readable, _, _ = select.select([self.socket], [], [], min(left, 1))
            if readable:
                self.heed()

    def close(self, reason):
        if reason:
            self.send(message(NOTIFICATION, reason))
        # What was sent is delivered before the end.
        self.socket.setblocking(True)
        self.socket.shutdown(socket.SHUT_WR)
        self.socket.settimeout(10)
        try:
            while self.socket.recv(1 << 16):
                pass
        except OSError:
            pass
        self.socket.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", help="p1 is 10.9.1.2 of AS 65001, and so on")
    parser.add_argument("table", type=pathlib.Path)
    parser.add_argument("script", nargs="+", metavar="SECONDS ACTION")
    parser.add_argument("--peer", type=lambda text: ipaddress.ip_address(text).packed)
    parser.add_argument("--router", default="10.9.0.1")
    parser.add_argument("--prefixes", type=int, default=int(os.environ.get("PREFIXES", 0)),
                        help="only the first ones; by default $PREFIXES, or all")
    parser.add_argument("--hold", type=int, default=90)
    options = parser.parse_args()
    number = int(options.name.strip("p"))
    options.local, options.asn = f"10.9.{number}.2", 65000 + number
    script = " ".join(options.script).split()
    start = time.monotonic()
    announced, withdrawn, count = table(options.table, options.peer, options.prefixes)
    if not announced:
        sys.exit(f"{options.table} has no UPDATEs")
    session = Session(options)
    print(json.dumps({"ready": time.monotonic() - start, "prefixes": count}), flush=True)
    for moment, action in zip(script[::2], script[1::2]):
        session.rest(start + float(moment))
        begun = time.monotonic() - start
        sent = []
        if action in ("announce", "withdraw"):
            sent = announced if action == "announce" else withdrawn
            session.send(b"".join(sent))
        else:
            session.close({"reset": ADMINISTRATIVE_RESET, "end": ADMINISTRATIVE_SHUTDOWN}.get(action))
            if action != "end":
                session = Session(options)
        said = {"action": action, "begun": begun, "ended": time.monotonic() - start}
        said |= {"messages": len(sent), "bytes": sum(map(len, sent))}
        said["accepted"] = Session.accepted
        print(json.dumps(said), flush=True)
        if action == "end":
            break


main()
