"""Runs the tests of the Python packages, and lists those that skip: `python3 dev/python_tests.py`.

NETARIUM_BINARY is the program that they start. The exit code is 1 if a test fails, or if there is
none. With CI=true, a test may only skip for lack of a module of an extra, such as pandas.
"""

import os
import re
import signal
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PERMITTED = re.compile(r"\w+ is not installed\b")


def skips(result):
    """A line for each test that skipped, and whether a reason is not permitted in CI."""
    found = [f"SKIPPED {test.id()}: {reason}" for test, reason in result.skipped]
    is_wrong = any(not PERMITTED.match(reason) for _, reason in result.skipped)
    return sorted(found), is_wrong


def main(*folders):
    # A shell's background job ignores SIGINT, and so would all that the tests start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Tests import the packages of the sources, and each other.
    sys.path[:0] = map(str, folders)
    tests = unittest.TestSuite(
        unittest.TestLoader().discover(str(folder / "tests")) for folder in folders
    )
    result = unittest.TextTestRunner(stream=sys.stderr).run(tests)
    found, is_wrong = skips(result)
    print(*found, f"{result.testsRun} Python tests, {len(found)} skipped", sep="\n")
    if result.testsRun == 0:
        print(f"no tests in {', '.join(str(folder / 'tests') for folder in folders)}")
        return 1
    if is_wrong and os.environ.get("CI") == "true":
        print("CI must not skip")
        return 1
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main(ROOT / "python", ROOT / "reproduce"))
