"""Tests of dev/results.py: `python3 -B -m unittest discover -s dev`."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import results

JUNIT = """\
<testsuites>
    <testsuite name="netarium::programs">
        <testcase name="ping" classname="netarium::programs">
            <flakyFailure><system-err>SKIPPED in the first attempt</system-err></flakyFailure>
            <system-err>thread a
INCONCLUSIVE ping: 3 Mbit/s; late
</system-err>
        </testcase>
        <testcase name="nc" classname="netarium::programs"><system-out/></testcase>
        <testcase name="wg" classname="netarium-base">
            <system-err>SKIPPED wg: not installed</system-err>
        </testcase>
        <testcase name="red" classname="netarium-base"><failure/></testcase>
    </testsuite>
</testsuites>
"""


class Results(unittest.TestCase):
    def test_lists_notes(self):
        expected = [
            "FLAKY netarium::programs ping",
            "INCONCLUSIVE ping: 3 Mbit/s; late",
            "SKIPPED wg: not installed",
        ]
        self.assertEqual(results.notes(JUNIT), expected)

    def test_shows_the_last_lines_of_each_failed_try_of_a_flaky_test(self):
        first = "\n".join(["a panicked at b:1", *[f"line {number}" for number in range(99)]])
        flaky = [
            f"<flakyFailure message='panicked'><system-out>run</system-out>"
            f"<system-err>{first}</system-err></flakyFailure>",
            "<flakyFailure message='test timed out'/>",
        ]
        junit = JUNIT.replace("<system-out/>", "".join(flaky))
        first, second = results.failed_tries(junit)[1:]
        expected = [
            "--- FLAKY netarium::programs nc: failed try 1 of 2 (last 40 of 101 lines)",
            "a panicked at b:1",
            *[f"line {number}" for number in range(59, 99)],
        ]
        self.assertEqual(first.splitlines(), expected)
        self.assertEqual(
            second, "--- FLAKY netarium::programs nc: failed try 2 of 2\ntest timed out"
        )

    def test_warns_above_a_tenth_of_the_tests_on_the_wall_clock(self):
        is_wall_clock = results.wall_clock()
        warning = results.warning(JUNIT, is_wall_clock)
        self.assertIn("1 INCONCLUSIVE results in 2 tests", warning)
        self.assertIsNone(results.warning(JUNIT.replace("INCONCLUSIVE", ""), is_wall_clock))

    def test_finds_the_group_of_the_wall_clock(self):
        is_wall_clock = results.wall_clock()
        for binary in ["netarium::programs", "netarium::cluster_faults", "netarium-lab-emu::labs"]:
            self.assertTrue(is_wall_clock(binary), binary)
        for binary in ["netarium::workspace", "netarium-lab-emu", "netarium-bgp-live::faults"]:
            self.assertFalse(is_wall_clock(binary), binary)

    def test_only_ci_must_not_skip(self):
        command = [sys.executable, "-B", results.__file__]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "junit.xml"
            path.write_text(JUNIT, encoding="utf-8")
            for ci, code in [("true", 1), ("", 0)]:
                environment = {**os.environ, "CI": ci}
                ended = subprocess.run(
                    [*command, path], env=environment, capture_output=True, text=True
                )
                self.assertEqual(ended.returncode, code, ended.stderr)
                self.assertIn("*** WARNING", ended.stdout)
                self.assertIn("failed try 1 of 1\nSKIPPED in the first", ended.stdout)


if __name__ == "__main__":
    unittest.main()
