"""The other simulators: our small programs on their libraries, built when first needed."""

import os
import shutil
import subprocess
from pathlib import Path

from machine import PEERS, Processor, finish, last_json, one_core, run, start

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "netarium-bench"
# ns-3 built with its profile `optimized`, unlike Debian's package, which contains logging.
NS3 = CACHE / "ns3" / "build"
MODULES = ("applications", "bridge", "core", "internet", "network", "point-to-point", "stats",
           "traffic-control")
COMPILE = ["g++", "-std=c++17", "-O3", "-DNDEBUG"]
PACKAGES = {"ns-3": ("ns3-core", "libns3-dev"), "simgrid": ("simgrid", "libsimgrid-dev")}


def absent(name):
    """Why a simulator cannot be measured here, or None."""
    if name == "ns-3 optimized":
        return None if _libraries() else f"not built: see the book, on benchmarks, for {NS3}"
    pkg_config, package = PACKAGES[name]
    found = shutil.which("pkg-config") and shutil.which("g++")
    if not found or subprocess.run(["pkg-config", "--exists", pkg_config]).returncode != 0:
        return f"not installed: apt-get install g++ pkg-config {package}"
    return None


def _libraries():
    """The modules of our own ns-3, if it is built."""
    found = [next(NS3.glob(f"lib/libns3*-{module}-optimized.so"), None) for module in MODULES]
    return [library for library in found if library] if all(found) else []


def _flags(name):
    if name == "ns-3 optimized":
        libraries = _libraries()
        path = [f"-I{NS3}/include", f"-Wl,--no-as-needed,-rpath,{NS3}/lib"]
        return ["-march=native", *path], libraries
    if name == "ns-3":
        return [], [f"-lns3-{module}" for module in MODULES]
    return [], ["-lsimgrid"]


def _program(simulator, source):
    """Builds a program if it is older than its sources; its path."""
    before, after = _flags(simulator)
    built = CACHE / f"{source}-{simulator.replace(' ', '-')}"
    newest = max(path.stat().st_mtime for path in [*PEERS.iterdir(), Path(__file__)])
    if not built.exists() or built.stat().st_mtime < newest:
        CACHE.mkdir(parents=True, exist_ok=True)
        fresh = built.with_suffix(f".{os.getpid()}")
        run([*COMPILE, *before, PEERS / f"{source}.cc", "-o", fresh, *after], 300)
        fresh.replace(built)
    return built


def simulate(simulator, source, *words, text=None, timeout=300):
    """Runs a program on one core with this input. Returns the last line of its output."""
    command = one_core([_program(simulator, source), *words])
    with Processor() as processor:
        output = finish(start(command, stdin=subprocess.PIPE), timeout, text)
    return {**last_json(output), "cpu_s": processor.seconds}
