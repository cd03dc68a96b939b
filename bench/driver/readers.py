"""Other readers of captures and archives: their installation and commands."""

import importlib.util
import os
import shutil
import subprocess

from machine import Processor, finish, folder, have, one_core, run, start
from simulators import CACHE

PACKAGES = {
    "tshark": "tshark", "tcpdump": "tcpdump", "tcpflow": "tcpflow", "bgpdump": "bgpdump",
    "bird": "bird2",
}
PROGRAMS = {"bird": "/usr/sbin/bird"}
PARSEBGP = CACHE / "libparsebgp"
ORIGIN = "https://github.com/CAIDA/libparsebgp"


def absent(name):
    """Why a reader cannot be measured here, or None."""
    if name == "pybgpkit-parser":
        here = importlib.util.find_spec("pybgpkit_parser")
        return None if here else "not installed: pip install pybgpkit-parser"
    if name == "libparsebgp":
        if not shutil.which("gcc"):
            return "not built: apt-get install gcc"
        here = (PARSEBGP / "lib").is_dir()
        return None if here else f"not there: git clone {ORIGIN} {PARSEBGP}"
    if have(name) or os.path.exists(PROGRAMS.get(name, "")):
        return None
    return f"not installed: apt-get install {PACKAGES[name]}"


def seconds(command, timeout=120):
    """Processor time of a command on one core; its output is discarded."""
    with Processor() as processor:
        finish(start(one_core(command), stdout=subprocess.DEVNULL), timeout)
    return processor.seconds


def tshark(capture):
    """Prefixes as text. By default it does not wait for segments out of order, which is faster."""
    fields = [word for name in ("nlri_prefix", "prefix_length") for word in ("-e", f"bgp.{name}")]
    return seconds(["tshark", "-n", "-r", capture, "-T", "fields", *fields])


def tcpdump(capture):
    """Text of each packet alone."""
    return seconds(["tcpdump", "-n", "-v", "-r", capture])


def tcpflow(capture):
    """Streams into files: reassembly only."""
    with folder() as out:
        return seconds(["tcpflow", "-a", "-r", capture, "-o", out])


def bgpdump(archive):
    """An archive as text, to nowhere."""
    return seconds(["bgpdump", "-m", archive])


def parsebgp():
    """Builds libparsebgp's program, without what its own build takes; its path."""
    program = PARSEBGP / "netarium-parsebgp"
    if not program.exists():
        header = (PARSEBGP / "lib" / "parsebgp.h.in").read_text()
        for part in ("MAJOR", "MID", "MINOR"):
            header = header.replace(f"@LIBPARSEBGP_{part}_VERSION@", "0")
        (PARSEBGP / "lib" / "parsebgp.h").write_text(header)
        (PARSEBGP / "config.h").touch()
        folders = {path.parent for path in PARSEBGP.glob("lib/**/*.h")}
        sources = [*PARSEBGP.glob("lib/**/*.c"), PARSEBGP / "tools" / "parsebgp.c"]
        words = ["gcc", "-O3", "-march=native", "-DNDEBUG", "-w", f"-I{PARSEBGP}"]
        run([*words, *(f"-I{path}" for path in folders), *sources, "-o", program], 300)
    return program


def libparsebgp(archive):
    """All of an archive to its structures; unknown attributes are skipped."""
    return seconds([parsebgp(), "-q", "-s", "-s", f"mrt:{archive}"])
