"""Tests of dev/soak: `python3 -m unittest discover -s dev`."""

import contextlib
import io
import json
import re
import subprocess
import tempfile
import unittest
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from unittest import mock

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

# A repository whose CI is green the first time, and red the second.
CI = """\
[ "$CI" = true ] || exit 9
mkdir -p target/nextest/default
echo noise >&2
if [ -e ../green ]; then
    cp junit.xml target/nextest/default/
    printf '\\ntest: time of each stage that passed:\\n     7 s  format\\n\\ntest: FAILED: tests\\n'
    exit 100
fi
touch ../green
printf '\\ntest: all passed\\n\\ntest: time of each stage that passed:\\n'
printf '     7 s  format\\n   300 s  tests\\n'
"""

# In place of Python: two papers, of which one cannot be made.
PAPERS = """\
#!/bin/sh
case "$*" in
    *--list*) echo '{"papers": [{"name": "good"}, {"name": "bad"}]}' ;;
    *netarium_papers\\ bad*) exit 4 ;;
    *) echo '{"figures": [{"id": "1", "status": "holds", "claims": [{"holds": true}]}]}' ;;
esac
"""


class Soak(unittest.TestCase):
    def test_reads_results_by_binary_and_test(self):
        expected = {
            "netarium-base clock::runs": True,
            "netarium::labs late": False,
            "netarium::labs gone": False,
        }
        self.assertEqual(soak.results(JUNIT), expected)

    def test_figures_of_a_paper_are_one_line_and_one_for_each_that_differs(self):
        figures = [
            {"id": "1a", "status": "holds", "claims": [{"holds": True}]},
            {"id": "1b", "status": "differs", "claims": [{"holds": True}, {"holds": False}]},
        ]
        line = soak.paper_line("slbn", 1, json.dumps({"figures": figures}), 9.4, 5.0)
        expected = "slbn: 2 figures, 2 of 3 claims hold, 9 s CPU, 5 s\n    1b differs"
        self.assertEqual(line, expected)
        self.assertEqual(soak.paper_line("slbn", 4, "", 0, 0), "slbn: exit code 4")

    def test_makes_each_paper_and_fails_if_one_differs(self):
        with tempfile.TemporaryDirectory() as folder:
            python = Path(folder, "python")
            python.write_text(PAPERS)
            python.chmod(0o755)
            with contextlib.redirect_stdout(io.StringIO()) as out:
                self.assertEqual(soak.figures(python, "short", None, Path(folder)), 1)
                self.assertEqual(soak.figures(python, "full", ["good"], Path(folder)), 0)
        found = [re.sub(r"\d+ s CPU, \d+ s", "times", of) for of in out.getvalue().splitlines()]
        good = "good: 1 figures, 1 of 1 claims hold, times"
        self.assertEqual(found, [good, "bad: exit code 4", good])

    def test_wheel_is_tested_in_a_root_folder_of_debian(self):
        with mock.patch.object(soak.subprocess, "run") as run:
            run.return_value.returncode = 3
            self.assertEqual(soak.pythons(["one", "two"]), 3)
        (made, tested) = run.call_args_list
        self.assertEqual(made.args[0][0], "mmdebstrap")
        self.assertEqual(tested.args[0][2:], ["one", "two"])
        self.assertEqual(tested.kwargs["env"]["NETARIUM_TEST_ROOT"], made.args[0][-1])

    def test_prints_flake_rates_highest_first(self):
        counts = {}
        for number in range(10):
            found = {"a": number >= 7, "b": True, "c": number != 9}
            soak.count(counts, found, number, 0)
        lines = soak.table(counts)
        self.assertTrue(lines[0].startswith(" 70.0 %  7/10  a"), lines)
        self.assertTrue(lines[1].startswith(" 10.0 %  1/10  c  (seed 9 load 0)"), lines)
        self.assertEqual(lines[2], "2 of 3 tests failed at least once")

    def test_gate_continues_after_a_red_run(self):
        with tempfile.TemporaryDirectory() as name:
            root, out = Path(name) / "root", Path(name) / "soak"
            (root / ".ci").mkdir(parents=True)
            (root / ".ci/run").write_text(CI, encoding="utf-8")
            (root / "junit.xml").write_text(JUNIT, encoding="utf-8")
            git = ["git", "-C", root, "-c", "user.name=a", "-c", "user.email=a@b.example"]
            subprocess.run([*git, "init", "--quiet"], check=True)
            subprocess.run([*git, "add", "."], check=True)
            subprocess.run([*git, "commit", "--quiet", "--message=a"], check=True)
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                self.assertEqual(soak.gate(2, root, out), 1)
            lines = printed.getvalue().splitlines()
            self.assertRegex(lines[0], r"^1 of 2: exit code 0 after \d+ s, load 0: .*/1.log$")
            self.assertEqual(lines[1:3], ["     7 s  format", "   300 s  tests"])
            self.assertRegex(lines[3], r"^2 of 2: exit code 100 after \d+ s, load 2: ")
            expected = [
                "     7 s  format",
                "    FAILED tests",
                "    FAILED netarium::labs late",
                "    FAILED netarium::labs gone",
                "1 of 2 green",
            ]
            self.assertEqual(lines[4:], expected)
            kept = {path.name for path in out.iterdir()}
            self.assertEqual(kept, {"1.log", "2.log", "2.xml", "green"})

    def test_load_ends_with_its_block(self):
        with soak.busy(2) as children:
            self.assertTrue(all(child.poll() is None for child in children))
        self.assertTrue(all(child.poll() is not None for child in children))


if __name__ == "__main__":
    unittest.main()
