"""Runs of netarium: a lab's text in, its record and its programs' output out."""

import json
from pathlib import Path

from machine import NETARIUM, Failure, Processor, finish, folder, last_json, one_core, start


class Run:
    """A run that has ended."""

    def __init__(self, path, record):
        self.record = record
        self.outputs = {
            program["name"]: (path / "programs" / program["name"] / "stdout").read_text()
            for program in record["programs"]
        }

    def result(self, program):
        """The output of one of our probes."""
        return last_json(self.outputs[program])

    def cores(self):
        """Processors that the data path used."""
        return self.record["host"]["cpu_s"] / self.record["elapsed_s"]


OPTIONS = ["--no-report", "--no-progress", "--quiet"]


def command(lab, runs):
    return [NETARIUM, "run", lab, "--runs", runs, *OPTIONS]


def run(text, timeout=60):
    """Runs a lab. It is also measured if the result is not trusted.
    A program under test that fails is an error."""
    with folder() as place:
        lab = Path(place) / "lab.toml"
        lab.write_text(text)
        process = start(command(lab, Path(place) / "runs"), cwd=place)
        try:
            finish(process, timeout)
        except Failure:
            if process.returncode != 3:
                raise
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
        (path,) = (Path(place) / "runs").iterdir()
        return Run(path, json.loads((path / "run.json").read_text()))


def simulate(text, timeout=300):
    """Simulates a lab on one core; the run's report on the simulation, and its record."""
    with folder() as place:
        lab, runs = Path(place) / "lab.toml", Path(place) / "runs"
        lab.write_text(text)
        words = [NETARIUM, "sim", lab, *OPTIONS, "--runs", runs]
        with Processor() as processor:
            finish(start(one_core(words), cwd=place), timeout)
        (path,) = runs.iterdir()
        record = json.loads((path / "run.json").read_text())
        return {**record["simulation"], "cpu_s": processor.seconds}, record


def program(name, node, words, more=""):
    listed = ", ".join(f'"{word}"' for word in words)
    return f'[[program]]\nname = "{name}"\nnode = "{node}"\nrun = [{listed}]\n{more}\n'


def two_hosts(link, lab=""):
    """`a` and `b` with one link between them."""
    return f"""
[lab]
name = "bench"
duration = "60 s"
{lab}
[node.a]
[node.b]
[[link]]
name = "wire"
ends = ["a", "b"]
{link}
"""
