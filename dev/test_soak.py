"""Tests of dev/soak: `python3 -m unittest discover -s dev`."""

import unittest
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

LOADER = SourceFileLoader("soak", str(Path(__file__).parent / "soak"))
soak = module_from_spec(spec_from_loader("soak", LOADER))
LOADER.exec_module(soak)

JUNIT = """\
<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="nextest-run" tests="3" failures="1" errors="1">
    <testsuite name="netarium-base" tests="3">
        <testcase name="clock::runs" classname="netarium-base"/>
        <testcase name="late" classname="netarium::labs"><failure type="test failure"/></testcase>
        <testcase name="gone" classname="netarium::labs"><error type="exec"/></testcase>
    </testsuite>
</testsuites>
"""


class Soak(unittest.TestCase):
    def test_reads_results_by_binary_and_test(self):
        expected = {
            "netarium-base clock::runs": True,
            "netarium::labs late": False,
            "netarium::labs gone": False,
        }
        self.assertEqual(soak.results(JUNIT), expected)

    def test_prints_flake_rates_highest_first(self):
        counts = {}
        for number in range(10):
            found = {"a": number >= 7, "b": True, "c": number != 9}
            soak.count(counts, found, number, 0)
        lines = soak.table(counts)
        self.assertTrue(lines[0].startswith(" 70.0 %  7/10  a"), lines)
        self.assertTrue(lines[1].startswith(" 10.0 %  1/10  c  (seed 9 load 0)"), lines)
        self.assertEqual(lines[2], "2 of 3 tests failed at least once")

    def test_load_ends_with_its_block(self):
        with soak.busy(2) as children:
            self.assertTrue(all(child.poll() is None for child in children))
        self.assertTrue(all(child.poll() is not None for child in children))


if __name__ == "__main__":
    unittest.main()
