"""Lists flaky, inconclusive and skipped tests of a JUnit file: `python3 dev/results.py FILE`.

The failed tries of each flaky test follow with the last lines of their output, which nextest does
not print.

The exit code is 1 if a test skipped and CI is `true`.
"""

import os
import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
# Where `dev/test` installs it.
NEXTEST = CACHE / "netarium" / "cargo-nextest" / "bin" / "cargo-nextest"
MAX_INCONCLUSIVE = 0.1
# Of each failed try of a flaky test.
MAX_LINES = 40
MAX_PANICS = 4
MAX_CHARACTERS_PER_LINE = 1_000


def wall_clock(text=None):
    """Whether a binary, such as `netarium::programs`, is in the group of .config/nextest.toml."""
    text = text or (ROOT / ".config/nextest.toml").read_text(encoding="utf-8")
    rule = re.search(r"filter = '''([^']*)'''\ntest-group = 'wall-clock'", text).group(1)
    binaries = re.search(r"package\(netarium\) & binary\(/(.*)/\)", rule).group(1)
    others = re.findall(r"binary_id\(([^)]*)\)", rule)

    def is_member(binary):
        package, _, name = binary.partition("::")
        return binary in others or package == "netarium" and bool(re.search(binaries, name))

    return is_member


def notes(junit):
    """Each flaky, inconclusive or skipped test, such as `FLAKY netarium::programs ping`."""
    found = []
    for case in ElementTree.fromstring(junit).iter("testcase"):
        name = f"{case.get('classname')} {case.get('name')}"
        if case.find("flakyFailure") is not None:
            found.append(f"FLAKY {name}")
        output = "\n".join(case.findtext(part) or "" for part in ["system-out", "system-err"])
        found += re.findall(r"^(?:INCONCLUSIVE|SKIPPED) .*", output, re.MULTILINE)
    return sorted(set(found))


def failed_tries(junit):
    """The failed tries of flaky tests, each with the end of its output and the places of panics."""
    found = []
    for case in ElementTree.fromstring(junit).iter("testcase"):
        tries = case.findall("flakyFailure")
        for number, attempt in enumerate(tries, 1):
            name = f"{case.get('classname')} {case.get('name')}"
            parts = [attempt.findtext(part) or "" for part in ["system-out", "system-err"]]
            output = "\n".join(part.strip("\n") for part in parts if part.strip())
            # Without output, such as after a timeout, the message is the reason.
            lines = (output or attempt.get("message") or "no output").splitlines()
            before, end = lines[:-MAX_LINES], lines[-MAX_LINES:]
            head = f"--- FLAKY {name}: failed try {number} of {len(tries)}"
            if before:
                head += f" (last {MAX_LINES} of {len(lines)} lines)"
            panics = [line for line in before if "panicked at" in line][-MAX_PANICS:]
            shown = [line[:MAX_CHARACTERS_PER_LINE] for line in panics + end]
            found.append("\n".join([head, *shown]))
    return found


def warning(junit, is_wall_clock):
    """A line if the machine distorted too many of the tests on the wall clock."""
    cases = ElementTree.fromstring(junit).iter("testcase")
    tests = sum(is_wall_clock(case.get("classname")) for case in cases)
    inconclusive = [n for n in notes(junit) if n.startswith("INCONCLUSIVE")]
    if len(inconclusive) <= MAX_INCONCLUSIVE * tests:
        return None
    return (
        f"WARNING: {len(inconclusive)} INCONCLUSIVE results in {tests} tests on the wall clock: "
        "this machine was too busy to check them"
    )


def main(path):
    junit = path.read_text(encoding="utf-8")
    found = notes(junit)
    print(*found, *failed_tries(junit), sep="\n", end="\n" if found else "")
    if line := warning(junit, wall_clock()):
        print(f"\n*** {line} ***\n")
    if os.environ.get("CI") == "true" and any(note.startswith("SKIPPED") for note in found):
        print("CI must not skip")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
