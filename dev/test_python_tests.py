"""Tests of dev/python_tests.py: `python3 -B -m unittest discover -s dev`."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import python_tests

PACKAGE = """\
import unittest
import netarium

class Tests(unittest.TestCase):
    def test_passes(self):
        self.assertEqual(netarium.NAME, "x")

    def test_body(self):
        BODY
"""


class PythonTests(unittest.TestCase):
    def code(self, body, ci="true"):
        """The exit code and output for a package with a test of this body."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for part in ["netarium", "tests"]:
                (folder / part).mkdir()
            (folder / "netarium/__init__.py").write_text('NAME = "x"\n', encoding="utf-8")
            if body:
                text = PACKAGE.replace("BODY", body)
                (folder / "tests/test_it.py").write_text(text, encoding="utf-8")
            program = "import pathlib, sys, python_tests as p; sys.exit(p.main(pathlib.Path('.')))"
            ended = subprocess.run(
                [sys.executable, "-B", "-c", program],
                cwd=folder,
                env={**os.environ, "CI": ci, "PYTHONPATH": str(Path(python_tests.__file__).parent)},
                capture_output=True,
                text=True,
            )
            return ended.returncode, ended.stdout

    def test_counts_tests(self):
        code, text = self.code("pass")
        self.assertEqual((code, text), (0, "2 Python tests, 0 skipped\n"))

    def test_fails_with_a_failed_test_or_without_tests(self):
        self.assertEqual(self.code("self.fail()")[0], 1)
        self.assertEqual(self.code("")[0], 1)

    def test_only_modules_of_extras_may_be_missing_in_ci(self):
        code, text = self.code("self.skipTest('pandas is not installed: pip install it')")
        self.assertEqual(code, 0, text)
        self.assertIn("SKIPPED test_it.Tests.test_body: pandas is not installed", text)
        self.assertIn("2 Python tests, 1 skipped", text)
        for ci, expected in [("true", 1), ("", 0)]:
            code, text = self.code("self.skipTest('no /dev/net/tun')", ci)
            self.assertEqual(code, expected, text)


if __name__ == "__main__":
    unittest.main()
