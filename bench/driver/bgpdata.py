"""Captures and archives that the rows of the collector read, and the streams in them."""

import functools
import socket
import struct
import tempfile
from pathlib import Path

from machine import NETARIUM, PROBE, ROOT, Failure, last_json, one_core, run

DATA = ROOT / "data" / "bgp"
# Announced by the peers of the capture, together.
PREFIXES = 2_888_685
PEERS = 5
COLLECT = ["--compress", "none", "--snapshot", "0 s"]


@functools.cache
def scratch():
    """A folder that is deleted with this process."""
    return tempfile.TemporaryDirectory(prefix="netarium-bench-")


def place(name):
    return Path(scratch().name) / name


@functools.cache
def capture():
    """Five full tables of 2015, as packets."""
    path = place("full5.pcap")
    run([PROBE, "collector", "unpack", DATA / "pcap" / "full5x577737.pcap.zst", path])
    return path


def collect(source, out, *options):
    """The command for one core; `finished` returns its output."""
    words = [NETARIUM, "collect", "--read", source, "--out", out, *COLLECT, *options]
    return one_core([*words, "--json", "--quiet"])


def finished(output):
    """The output of a run of `collect`, if nothing is missing."""
    said = last_json(output)
    for what in ("missing_bytes", "skipped_bytes", "gaps", "kernel_drops"):
        if said[what]:
            raise Failure(f"{said[what]} {what.replace('_', ' ')}")
    return said


@functools.cache
def archive():
    """The same as one archive file."""
    out = place("archive")
    finished(run(collect(capture(), out, "--rotate", "24 h")))
    (path,) = out.rglob("updates.*")
    return path


def streams(path):
    """By peer: address, AS, and the messages that it sent, in order."""
    data, at, found = path.read_bytes(), 0, {}
    head = struct.Struct(">IHHI")
    while at < len(data):
        _, kind, subtype, length = head.unpack_from(data, at)
        body = at + 12 + (4 if kind == 17 else 0)
        at += 12 + length
        if subtype not in (1, 4):
            continue
        width = 4 if subtype == 4 else 2
        # AS numbers, interface, address family, then the addresses.
        start = body + 2 * width + 4
        peer = data[start : start + 4]
        system = int.from_bytes(data[body : body + width], "big")
        found.setdefault((peer, system), []).append(data[start + 8 : at])
    return [(socket.inet_ntoa(peer), system, sent) for (peer, system), sent in found.items()]
