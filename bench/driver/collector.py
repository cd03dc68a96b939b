"""The rows of the route collector: its costs, compared with other readers."""

import bird
import bgpdata
import readers
import wires
from bgpdata import PREFIXES, collect, finished
from figures import spread
from machine import (
    NETARIUM, PROBE, Failure, Processor, finish, folder, last_json, one_core, run, start,
)
from pathlib import Path


def each(seconds):
    """Nanoseconds for each prefix of the capture."""
    return seconds / PREFIXES * 1e9


def probe(*words, timeout=120):
    return last_json(run(one_core([PROBE, "collector", *words]), timeout))


def quick(measure):
    """The median of three."""
    return spread([measure() for _ in range(3)])[0]


def beside(table, row, name, measure):
    """A peer's nanoseconds for each prefix; None if it is not available."""
    found = table.attempt(name, measure)
    if found is not None:
        found = each(found)
        table.peer(row, name, "a prefix", "ns", found)
    return found


def ours(capture, *options):
    """Processor seconds of the whole command."""
    with folder() as out, Processor() as processor:
        said = finished(finish(start(collect(capture, Path(out) / "archive", *options)), 60))
    if said["messages"] < 448_400:
        raise Failure(f"{said['messages']} messages only")
    return processor.seconds


def mrt(table, repetitions, short):
    """Five full tables: packets to archive records on disk, on one core."""
    row, capture = "collector-mrt", bgpdata.capture()
    for number in range(repetitions):
        # These take seconds and run once.
        if number == 0 and not short:
            beside(table, row, "tshark", lambda: readers.tshark(capture))
            beside(table, row, "tcpdump", lambda: readers.tcpdump(capture))
            beside(table, row, "BIRD", lambda: routes_of_bird()[0])
        beside(table, row, "tcpflow", lambda: readers.tcpflow(capture))
        found = each(quick(lambda: ours(capture)))
        names = [(name, "a prefix") for name in ("tshark", "tcpdump", "BIRD", "tcpflow")]
        table.ours(row, "collect", "a prefix", "ns", found, *names, at_most=60)
        with folder() as out:
            alone = probe("archive", capture, Path(out) / "a", "none", 86_400)
        found = alone["ingest_cpu_ns"] / PREFIXES
        table.ours(row, "its thread that collects", "a prefix", "ns", found, at_most=25)
        mine = probe("mrt", capture, 5)
        table.ours(row, "memory to memory", "a prefix", "ns", mine["cpu_ns"] / PREFIXES)


_bird = []


def routes_of_bird():
    """BIRD with the five tables: processor seconds, bytes. Measured once."""
    if not _bird:
        _bird.append(bird.load(bgpdata.archive()))
    return _bird[0]


def decode(table, repetitions, short):
    """Five full tables: archive records to attributes, each typed and validated."""
    row, archive = "collector-decode", bgpdata.archive()
    for _ in range(repetitions):
        mine = probe("decode", archive, 3 if short else 7)
        if mine["announced"] != PREFIXES:
            raise Failure(f"{mine['announced']} prefixes announced")
        found = mine["cpu_ns"] / PREFIXES
        table.ours(row, "in memory", "a prefix", "ns", found, at_most=15)
        theirs = beside(table, row, "libparsebgp", lambda: quick(
            lambda: readers.libparsebgp(archive)))
        if theirs:
            table.ours(row, "in memory", "of libparsebgp's", "", found / theirs, at_most=0.5)
        bgpkit = probe("bgpkit", archive, 1)
        table.peer(row, "bgpkit-parser", "a prefix", "ns", bgpkit["cpu_ns"] / PREFIXES)
        share = mine["cpu_ns"] / bgpkit["cpu_ns"]
        table.ours(row, "in memory", "of bgpkit-parser's", "", share, at_most=0.1)
        names = [(name, "a prefix") for name in ("libparsebgp", "bgpkit-parser")]
        table.ours(row, "in memory", "all", "ns", found, *names)


def text(table, repetitions, short):
    """Five full tables: archive records to the lines of `bgpdump -m`."""
    row, archive = "collector-text", bgpdata.archive()
    convert = [NETARIUM, "collect", "convert", archive, "-", "--to", "bgpdump"]
    if readers.absent("bgpdump") is None:
        words = ["bgpdump", "-m", archive, *convert]
        run(["bash", "-c", 'cmp <("${@:1:3}") <("${@:4}")', "bash", *words], 120)
        table.ours(row, "convert", "bytes that differ", "", 0, at_most=0)
    for number in range(repetitions):
        if number == 0 or not short:
            beside(table, row, "bgpdump", lambda: readers.bgpdump(archive))
        name = ("bgpdump", "a prefix")
        found = each(quick(lambda: readers.seconds(convert)))
        table.ours(row, "convert", "a prefix", "ns", found, name)
        peer = table.peers.get((row, *name))
        if peer:
            table.ours(row, "convert", "of bgpdump's", "", found / peer["values"][-1], at_most=0.1)
        mine = probe("text", archive, 3)
        table.ours(row, "in memory", "a prefix", "ns", mine["cpu_ns"] / PREFIXES, name)


def compress(table, repetitions, short):
    """Five full tables: archives are compressed while records are ingested without waiting."""
    row, capture = "collector-compress", bgpdata.capture()
    for number in range(repetitions):
        # bzip2 takes seconds and runs once.
        for how in ("none", "zst", "gz") if short or number else ("none", "zst", "gz", "bz2"):
            with folder() as out:
                # Files of five seconds: the first are compressed while the last are received.
                words = [PROBE, "collector", "archive", capture, Path(out) / "a", how, 5]
                mine = last_json(run(words, 120))
            ingest = mine["ingest_cpu_ns"] / PREFIXES
            wait = mine["waited_ns"] / 1e6
            table.ours(row, how, "ingest", "ns", ingest)
            table.ours(row, how, "ingest took", "ms", mine["ingest_wall_ns"] / 1e6)
            table.ours(row, how, "ingest waited", "ms", wait, at_most=0)
            table.ours(row, how, "all", "ns", mine["total_cpu_ns"] / PREFIXES)
            table.ours(row, how, "files", "", mine["files"])
            table.ours(row, how, "size", "%", mine["bytes"] / mine["content"] * 100)


def live(table, repetitions, short):
    """Five full tables each of three routers over veth: losses, and delay until records can be read."""
    row = "collector-live"
    # Blocks of packets are handed over when they are full or after a timeout. A file in memory shows
    # the delay of the disk.
    loads = {
        "100 Mbit/s": (1, 1e8, None),
        "1 Gbit/s": (3, 1e9, None),
        "1 Gbit/s to memory": (3, 1e9, "/dev/shm"),
        "as fast as it goes": (3, 0, None),
    }
    for _ in range(repetitions):
        for what, (rounds, rate, place) in loads.items():
            wires.beside_tcpdump(table, row, what, bgpdata.capture(), rounds, rate, place)


def rib(table, repetitions, short):
    """Five full tables in memory: bytes of a route."""
    row, capture = "collector-rib", bgpdata.capture()
    if not short:
        found = table.attempt("BIRD", routes_of_bird)
        if found:
            table.peer(row, "BIRD", "a route", "B", found[1] / PREFIXES)
    for _ in range(repetitions):
        for what in ("same", "different"):
            mine = probe("routes", capture, what)
            # Some prefixes are duplicates, and each peer withdraws a few.
            if mine["routes"] < PREFIXES - 500:
                raise Failure(f"{mine['routes']} routes only")
            subject = f"{what} attributes of all peers"
            bytes_each = mine["bytes"] / mine["routes"]
            must = {"at_most": 20} if what == "same" else {}
            table.ours(row, subject, "a route", "B", bytes_each, ("BIRD", "a route"), **must)
            if must:
                table.ours(row, subject, "the goal", "B", bytes_each, at_most=10)
            for part in ("prefix", "route", "announcement", "attribute"):
                share = mine[f"{part}_bytes"] / mine["routes"]
                table.ours(row, subject, f"for each {part}", "B", share)
            table.ours(row, subject, "learning it", "ns", mine["cpu_ns"] / mine["announced"])


def peers(table, repetitions, short):
    """500 peers of 20,000 prefixes: tables, 100 updates a second of each, all reset at once."""
    row, seconds = "collector-peers", 3 if short else 10
    sizes = [100, 5_000] if short else [500, 20_000]
    # Ten million routes take a while and run once.
    for _ in range(min(repetitions, 1)):
        with folder() as out:
            mine = probe("population", Path(out) / "a", *sizes, seconds, timeout=300)
        subject = f"{sizes[0]} x {sizes[1]:,}"
        if mine["left"]:
            raise Failure(f"{mine['left']} routes are left")
        lost = mine["sent"] - mine["messages"] + mine["missing_bytes"] + mine["lost"]
        table.ours(row, subject, "lost", "", lost, at_most=0)
        table.ours(row, subject, "a second", "cores", mine["second_cpu_ns"] / 1e9, at_most=1)
        table.ours(row, subject, "the worst", "cores", mine["second_cpu_max_ns"] / 1e9, at_most=1)
        table.ours(row, subject, "the reset", "s", mine["reset_cpu_ns"] / 1e9)
        cores = mine["total_cpu_ns"] / 1e9 / mine["virtual_s"]
        table.ours(row, subject, "all, with gzip", "cores", cores, at_most=1)
        tables = mine["tables_cpu_ns"] / (sizes[0] * sizes[1])
        table.ours(row, subject, "a table's prefix", "ns", tables)
        table.ours(row, subject, "routes", "million", mine["routes"] / 1e6)
        table.ours(row, subject, "a route", "B", mine["rib_bytes"] / mine["routes"], at_most=20)
        table.ours(row, subject, "resident", "MiB", mine["resident_bytes"] / 2**20)


ROWS = {
    "collector-mrt": mrt,
    "collector-decode": decode,
    "collector-text": text,
    "collector-compress": compress,
    "collector-live": live,
    "collector-rib": rib,
    "collector-peers": peers,
}
