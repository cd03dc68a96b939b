"""Tests of dev/setup.sh: `python3 -B -m unittest discover -s dev`."""

import subprocess
import unittest

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


if __name__ == "__main__":
    unittest.main()
