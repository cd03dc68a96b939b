"""Rows of the Python package."""

import importlib.util
import os
import statistics
import subprocess
import sys
import time

import bgpdata
from machine import NETARIUM, ROOT, folder

IMPORT = "import time as t; a = t.perf_counter(); import netarium; print(t.perf_counter() - a)"
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
    """Time of `Lab.sim` beside the command line, and of the import, in ms; wall clock."""
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
            ours, theirs = [], []
            for _ in range(5 if short else 25):
                begin = time.perf_counter()
                subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
                middle = time.perf_counter()
                lab.sim(runs=runs)
                theirs.append(middle - begin)
                ours.append(time.perf_counter() - middle)
            command, python = (1e3 * statistics.median(times) for times in (theirs, ours))
            table.ours("python-overhead", "a run", "command line", "ms", command)
            table.ours("python-overhead", "a run", "in Python", "ms", python)
            difference = python - command
            table.ours("python-overhead", "a run", "overhead", "ms", difference, at_most=20)
            environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
            text = subprocess.check_output([sys.executable, "-c", IMPORT], env=environment)
            table.ours("python-overhead", "a process", "import", "ms", 1e3 * float(text))


def archive(table, repetitions, short):
    """Updates per second of an archive as Arrow batches and as rows, beside bgpkit's Python."""
    netarium = package()
    path = bgpdata.archive()
    readers = {"Arrow batches": lambda: sum(b.num_rows for b in updates(netarium, path).batches())}
    readers["rows"] = lambda: sum(1 for _ in updates(netarium, path).rows())
    for module, names in {"pyarrow": ["Arrow batches"], "pybgpkit_parser": []}.items():
        if importlib.util.find_spec(module) is None:
            table.notes.append(f"{module}: not installed: pip install {module.replace('_', '-')}")
            for name in names:
                del readers[name]
    for _ in range(repetitions):
        for part in ("elements",) if importlib.util.find_spec("pybgpkit_parser") else ():
            value = rate(lambda: bgpkit(path))
            table.peer("python-archive", "bgpkit-parser", part, "Melem/s", value)
        for name, read in readers.items():
            ratio = {"ratio": 5} if name == "Arrow batches" else {}
            beside = ("bgpkit-parser", "elements")
            table.ours("python-archive", name, "updates", "Melem/s", rate(read), beside, **ratio)


def package():
    sys.path.insert(0, str(ROOT / "python"))
    os.environ["NETARIUM_BINARY"] = str(NETARIUM)
    import netarium

    return netarium


def updates(netarium, path):
    return netarium.collector.open(path).updates(types=["announce", "withdraw"])


def bgpkit(path):
    import pybgpkit_parser

    return sum(1 for _ in pybgpkit_parser.Parser(str(path)))


def rate(read):
    """Millions of elements per second; the reader returns their number."""
    begin = time.perf_counter()
    count = read()
    return count / (time.perf_counter() - begin) / 1e6


ROWS = {"python-overhead": overhead, "python-archive": archive}
