"""Runs a script with `mininet` imported from here: `python -m netarium.mininet SCRIPT [ARGS]`."""

import importlib
import os
import runpy
import sys

MODULES = ("clean", "cli", "link", "log", "net", "node", "nodelib", "topo", "topolib", "util")


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit("usage: python -m netarium.mininet SCRIPT [ARGUMENT]...")
    sys.modules["mininet"] = importlib.import_module("netarium.mininet")
    for name in MODULES:
        sys.modules[f"mininet.{name}"] = importlib.import_module(f"netarium.mininet.{name}")
    del sys.argv[0]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
