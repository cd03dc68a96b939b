"""Rows of the Python package."""

import importlib
import os
import statistics
import subprocess
import sys
import time

import bgpdata
from machine import NETARIUM, ROOT, Failure, folder

IMPORT = "import time as t; a = t.process_time(); import netarium; print(t.process_time() - a)"
LAB = """
[lab]
name = "overhead"
duration = "1 s"
[node.a]
[node.b]
[[link]]
ends = ["a", "b"]
rate = "1 Mbit/s"
delay = "5 ms"
[[flow]]
from = "a"
to = "b"
control = "cubic"
"""


def overhead(table, repetitions, short):
    """Time of `Lab.sim` beside the command line; processor time of the package, in ms."""
    netarium = package()
    with folder() as place:
        path = os.path.join(place, "lab.toml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(LAB)
        lab = netarium.Lab.from_toml(LAB)
        lab.folder = place
        runs = os.path.join(place, "runs")
        words = [NETARIUM, "sim", "--json", "--quiet", "--runs", runs, path]
        for _ in range(repetitions):
            times = {"command line": [], "overhead": [], "processor": []}
            for _ in range(5 if short else 25):
                begin = time.perf_counter()
                subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
                middle, processor = time.perf_counter(), time.process_time()
                lab.sim(runs=runs)
                times["command line"].append(middle - begin)
                times["overhead"].append(time.perf_counter() - 2 * middle + begin)
                times["processor"].append(time.process_time() - processor)
            values = {part: 1e3 * statistics.median(found) for part, found in times.items()}
            environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
            text = subprocess.check_output([sys.executable, "-c", IMPORT], env=environment)
            values["import"] = 1e3 * float(text)
            table.ours_all("python-overhead", "a run", "ms", values, {"overhead": 20})


def archive(table, repetitions, short):
    """Updates of an archive per second of processor time: Arrow batches beside bgpkit's Python."""
    netarium = package()
    path = bgpdata.place("part.mrt")
    path.write_bytes(records(bgpdata.archive().read_bytes(), 2_000_000 if short else 20_000_000))
    for name in ("polars", "pyarrow"):
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise Failure(f"{name} is not installed: pip install {name}") from error
    for _ in range(repetitions):
        peer = table.attempt("pybgpkit-parser", lambda: rate(bgpkit, path))
        if peer is not None:
            table.peer("python-archive", "bgpkit-parser", "updates", "M/s", peer)
        beside = ("bgpkit-parser", "updates")
        value = rate(batches, netarium, path)
        table.ours("python-archive", "netarium", "updates", "M/s", value, beside, ratio=5)


def records(data, size):
    """The first whole MRT records, of about this size."""
    end = 0
    while end < min(size, len(data)):
        end += 12 + int.from_bytes(data[end + 8 : end + 12], "big")
    return data[:end]


def batches(netarium, path):
    return sum(batch.num_rows for batch in netarium.collector.open(path).batches())


def package():
    sys.path.insert(0, str(ROOT / "python"))
    os.environ["NETARIUM_BINARY"] = str(NETARIUM)
    import netarium

    return netarium


def bgpkit(path):
    import pybgpkit_parser

    return sum(1 for _ in pybgpkit_parser.Parser(str(path)))


def rate(read, *arguments):
    """Millions of elements per second of processor time, of this process and its children."""
    begin = sum(os.times()[:4])
    count = read(*arguments)
    return count / (sum(os.times()[:4]) - begin) / 1e6


ROWS = {"python-overhead": overhead, "python-archive": archive}
