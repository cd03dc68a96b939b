"""Tests of dev/setup.sh: `python3 -B -m unittest discover -s dev`."""

import os
import subprocess
import tarfile
import tempfile
import unittest
from pathlib import Path

from results import ROOT

# Fails until the call with the number $1.
SCRIPT = """
. dev/setup.sh
sleep() { :; }
calls=0
attempt() { calls=$((calls + 1)); [ "$calls" -ge "$1" ]; }
code=0
retry attempt "$1" || code=$?
echo "$code $calls"
"""


class Setup(unittest.TestCase):
    def test_tries_network_commands_three_times(self):
        for good, expected in [(1, "0 1"), (3, "0 3"), (4, "1 3")]:
            command = ["sh", "-euc", SCRIPT, "sh", str(good)]
            ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
            self.assertEqual(ended.stdout.strip(), expected, ended.stderr)

    def test_finds_a_binary_of_this_version(self):
        manifest = (ROOT / "Cargo.toml").read_text()
        version = manifest.split('\nversion = "')[1].split('"')[0]
        machine = os.uname().machine

        def binary(path, version):
            path.parent.mkdir(parents=True)
            path.write_text(f"#!/bin/sh\necho netarium {version}\n")
            path.chmod(0o755)

        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder, "target")

            def ready():
                path = f"{folder}/bin:{os.environ['PATH']}"
                command = ["sh", "-euc", '. dev/setup.sh; ready_binary "$1"', "sh", str(target)]
                ended = subprocess.run(
                    command, cwd=ROOT, env={"PATH": path}, capture_output=True, text=True
                )
                return ended.stdout.strip() if ended.returncode == 0 else None

            binary(Path(folder, "bin", "netarium"), "0.0.0")
            self.assertIsNone(ready())
            name = f"netarium-{version}-{machine}-linux"
            binary(Path(folder, name, "netarium"), version)
            (target / "packages").mkdir(parents=True)
            with tarfile.open(target / "packages" / f"{name}.tar.gz", "w:gz") as tar:
                tar.add(Path(folder, name), arcname=name)
            self.assertEqual(ready(), str(target / "packages" / name / "netarium"))
            Path(folder, "bin", "netarium").write_text(f"#!/bin/sh\necho netarium {version}\n")
            self.assertEqual(ready(), str(Path(folder, "bin", "netarium")))


if __name__ == "__main__":
    unittest.main()
