"""The labs of the cookbook as labs for tests."""

import os
import shutil
from pathlib import Path

import netarium as nt
import pytest

COOKBOOK = Path(__file__).resolve().parent.parent / "cookbook"
# Debian has PostgreSQL's programs in a folder of their version.
FOLDERS = [os.environ["PATH"], *map(str, Path("/usr/lib/postgresql").glob("*/bin"))]


def servers(file, *names):
    """A function that makes the lab of a recipe, without events, expectations, other programs."""

    def make():
        lab = nt.Lab.from_toml(COOKBOOK / file)
        lab.data["program"] = [p for p in lab.data["program"] if p["name"] in names]
        for key in ("at", "expect"):
            lab.data.pop(key, None)
        return lab

    return make


def needs(package, program):
    """The marker that skips tests without a program, which is in a Debian package."""
    reason = f"{program} is not installed\n  cure: apt-get install {package}"
    return pytest.mark.skipif(shutil.which(program, path=":".join(FOLDERS)) is None, reason=reason)
