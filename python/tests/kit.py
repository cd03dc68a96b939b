"""What several tests need: the package on the path, the binary, a clean working directory."""

import functools
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

# The width of tables.
os.environ["COLUMNS"] = "80"
PYTHON = Path(__file__).resolve().parent.parent
ROOT = PYTHON.parent
sys.path.insert(0, str(PYTHON))

import netarium as nt  # noqa: E402


def pair(name: str = "pair", **keys) -> nt.Lab:
    """Two hosts with a link."""
    net = nt.Lab(name, **{"duration": "2 s", **keys})
    a, b = net.hosts("a", "b")
    net.link(a, b, name="core", rate="10 Mbit/s", delay="5 ms")
    return net


@functools.lru_cache(maxsize=None)
def why_no_labs() -> str:
    """The reason why this machine cannot run labs on the wall clock; empty if it can."""
    try:
        words = [nt.binary(), "doctor", "--quick", "--json"]
    except nt.CapabilityError as error:
        return str(error)
    done = subprocess.run(words, capture_output=True, text=True)
    findings = json.loads(done.stdout)["findings"]
    return "; ".join(f["text"] for f in findings if f["level"] == "bad")


class Case(unittest.TestCase):
    """A test in a working directory of its own, which is removed afterwards."""

    def setUp(self) -> None:
        try:
            nt.binary()
        except nt.CapabilityError as error:
            self.skipTest(str(error))
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)
        self.folder = Path(folder.name)


class LabCase(Case):
    """A test that runs a lab on the wall clock."""

    def setUp(self) -> None:
        super().setUp()
        if why_no_labs():
            self.skipTest(why_no_labs())
