"""Runs the workspace's tests and prints one line per target, the output of failed tests, and the
time that each target took.

A failed test fails the run. Its first failure is appended to a log that is kept between runs
(`target/test-failures.log`, or $NETARIUM_FAILURE_LOG) and printed at the end. Then its whole target
runs again, with the same parallelism, to classify the failure: it fails always, or now and then.
That changes the result only for tests in `dev/quarantine.toml`: those pass if a repetition passes.
An entry has a reason and an expiry date; an expired entry fails the run, and so does one whose test
does not exist.

In CI property tests always use the same seed, so that a change is judged by what it changes; other
runs use a new seed, unless PROPTEST_RNG_SEED is set. `dev/soak` measures flake rates.
"""

import datetime
import os
import random
import re
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
QUARANTINE = ROOT / "dev" / "quarantine.toml"
MAX_REPETITIONS = 3
# Repetitions start no later than this after the first, so that a broken change does not take hours.
REPETITION_BUDGET_SECONDS = 600
SLOWEST_TARGETS = 15
TARGET = re.compile(r" +(Running|Doc-tests) (.*)")
RESULT = re.compile(r"test (.+?) \.\.\. (ok|FAILED)\b")
FINISHED = re.compile(r"test result: .*finished in ([0-9.]+)s")
SHOWN = re.compile(r" +(Compiling|Running|Doc-tests)|error|warning|test .* FAILED|test result")
RERUN = re.compile(r"error: test failed, to rerun pass `(.*)`")


class Quarantine:
    """Tests whose failures are known, by (package, test)."""

    def __init__(self, entries, today):
        self.reasons, self.errors = {}, []
        for entry in entries:
            name = f"{entry.get('package')} {entry.get('test')}"
            wrong = {"package", "test", "reason", "expires"} ^ set(entry)
            if wrong:
                self.errors.append(f"{name}: missing or unknown: {', '.join(sorted(wrong))}")
            elif not isinstance(entry["expires"], datetime.date):
                self.errors.append(f"{name}: `expires` must be a date such as 2026-12-31")
            elif not entry["reason"].strip():
                self.errors.append(f"{name}: the reason is empty")
            elif entry["expires"] < today:
                self.errors.append(f"{name}: expired on {entry['expires']}: {entry['reason']}")
            else:
                self.reasons[entry["package"], entry["test"]] = entry["reason"]

    @classmethod
    def read(cls, path=QUARANTINE):
        with open(path, "rb") as file:
            return cls(tomllib.load(file).get("test", []), datetime.date.today())

    def missing(self, executed):
        """Entries whose tests are not among the names of those executed."""
        return [
            f"{package} {test}: no such test"
            for package, test in self.reasons
            if test not in executed
        ]


class Target(NamedTuple):
    """A binary with tests: its arguments for cargo, and the line with which cargo starts it."""

    arguments: str
    header: str

    @property
    def package(self):
        return self.arguments.split()[1]


class Failure(NamedTuple):
    """A failed test; without a name, a target that crashed."""

    target: Target
    name: str | None

    def __str__(self):
        return f"{self.name or 'a whole target'} ({self.target.arguments})"


def main():
    seed = os.environ.setdefault("PROPTEST_RNG_SEED", new_seed())
    say(f"test: property tests use PROPTEST_RNG_SEED={seed}")
    quarantine = Quarantine.read()
    before = cpu_times()
    status, lines = run(["cargo", "test", "--workspace", "--locked", "--no-fail-fast", "--"])
    say(f"test: meanwhile {cpu_shares(before)}")
    print_durations(lines)
    passed = status == 0
    failed, output = failures(lines)
    if not passed:
        print_all(output if failed else lines[-60:])
        append_to_log(failed, seed)
        # Without a named test, something was not built.
        passed = bool(failed) and judge(failed, quarantine, repeat_target)
    # Where something was not built, tests are missing for another reason.
    errors = quarantine.errors + (quarantine.missing(results(lines)) if passed else [])
    if errors:
        say("test: dev/quarantine.toml is wrong:", *(f"    {error}" for error in errors))
        passed = False
    skipped = sorted({line for line in lines if line.startswith("SKIPPED")})
    if skipped:
        say("test: skipped:", *(f"    {line}" for line in skipped))
        if in_ci():
            say("test: CI must not skip")
            passed = False
    print_log()
    return 0 if passed else 1


def in_ci():
    return os.environ.get("CI") == "true"


def new_seed():
    return str(1 if in_ci() else random.getrandbits(32))


def run(command, quiet=False):
    """Its status and lines; lines that matter are printed as they arrive unless it is quiet."""
    lines = []
    with subprocess.Popen(
        [*command, "--show-output"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as child:
        for line in child.stdout:
            line = line.rstrip("\n")
            lines.append(line)
            if not quiet and SHOWN.match(line):
                print(line, flush=True)
    return child.returncode, lines


def failures(lines):
    """The failed tests, and what they and the compiler printed."""
    failed, names, output = [], [], []
    inside = quoted = False
    target, begins = None, 0
    for at, line in enumerate(lines):
        if TARGET.match(line):
            target, begins, names, inside, quoted = line, at, [], False, False
        elif line == "failures:":
            if not inside:
                output += ["", target]
            inside, names = True, []
        elif inside and line.startswith("---- "):
            quoted = True
        elif inside and re.fullmatch(r"    \S.*", line):
            names.append(line.strip())
        elif rerun := RERUN.match(line):
            failed += [Failure(Target(rerun[1], target), name) for name in names or [None]]
            # A custom harness does not repeat the output of its tests at the end.
            if not quoted:
                output += ["", *lines[max(begins, at - 60) : at]]
            # Not at "test result": a test may quote the results of tests that it ran.
            inside = False
        if inside or line.startswith(("error", "Caused by:", "  process ")):
            output.append(line)
    return failed, output


def results(lines, header=None):
    """What each test came to, by name: `ok` or `FAILED`; only of the target with this header."""
    found, current = {}, None
    for line in lines:
        if TARGET.match(line):
            current = line
        elif (match := RESULT.match(line)) and header in (None, current):
            found[match[1]] = match[2]
    return found


def judge(failed, quarantine, repeat):
    """Classifies failures by repetitions of their targets; whether all that failed are
    quarantined and passed in a repetition."""
    start = time.monotonic()
    outcomes = {}
    for target in dict.fromkeys(failure.target for failure in failed):
        outcomes[target] = []
        for _ in range(MAX_REPETITIONS):
            if time.monotonic() - start > REPETITION_BUDGET_SECONDS:
                break
            outcomes[target].append(repeat(target))
    passed = True
    for failure in failed:
        seen = [outcome.get(failure.name, "FAILED") for outcome in outcomes[failure.target]]
        count, again = len(seen), seen.count("FAILED")
        reason = quarantine.reasons.get((failure.target.package, failure.name))
        is_excused = reason is not None and again < count
        rate = f"failed again in {again} of {count} repetitions under the same load"
        if is_excused:
            say(f"test: QUARANTINED: {failure}: {rate}; known: {reason}")
        else:
            say(f"test: FAILED: {failure}: {classification(again, count)}: {rate}")
        passed &= is_excused
    return passed


def classification(again, count):
    if count == 0:
        return "not classified, out of time"
    return "it fails always" if again == count else "it fails now and then"


def repeat_target(target):
    """Runs all tests of a target, as parallel as before; their results."""
    before = cpu_times()
    option, package, *kind = target.arguments.split()
    # With the whole workspace named, dependencies keep their features and are not built again; a
    # library's own tests have no name but their package.
    has_name = bool(kind) and kind[0] in ("--test", "--bin")
    scope = ["--workspace"] if has_name else [option, package]
    _, lines = run(["cargo", "test", *scope, "--locked", *kind, "--"], quiet=True)
    print_all(failures(lines)[1])
    say(f"test: repeated {target.arguments}; meanwhile {cpu_shares(before)}")
    return results(lines, target.header if has_name else None)


def durations(lines):
    """Seconds and name of each target, slowest first."""
    found, target = [], None
    for line in lines:
        if match := TARGET.match(line):
            target = match[2]
        elif match := FINISHED.match(line):
            found.append((float(match[1]), target))
    return sorted(found, key=lambda entry: -entry[0])


def print_durations(lines):
    found = durations(lines)
    say(f"test: {sum(seconds for seconds, _ in found):.0f} s in {len(found)} targets; the slowest:")
    say(*(f"    {seconds:7.1f} s  {target}" for seconds, target in found[:SLOWEST_TARGETS]))


def log_path():
    return Path(os.environ.get("NETARIUM_FAILURE_LOG", ROOT / "target" / "test-failures.log"))


def append_to_log(failed, seed):
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    with open(log_path(), "a", encoding="utf-8") as log:
        for failure in failed:
            print(f"{now} seed={seed} {failure}", file=log)


def print_log():
    path = log_path()
    if path.exists():
        lines = path.read_text(encoding="utf-8").splitlines()
        say(f"test: first failures of all runs ({path}):", *(f"    {line}" for line in lines))


def cpu_times():
    """Of all CPUs since boot, in ticks (proc(5), /proc/stat)."""
    with open("/proc/stat") as stat:
        return [int(ticks) for ticks in stat.readline().split()[1:9]]


def cpu_shares(before):
    user, nice, system, idle, waiting, irq, softirq, stolen = (
        now - then for now, then in zip(cpu_times(), before)
    )
    total = max(1, user + nice + system + idle + waiting + irq + softirq + stolen)
    idle, stolen = (100 * part / total for part in (idle + waiting, stolen))
    return f"{idle:.0f} % of the CPU time was idle and {stolen:.0f} % stolen"


def print_all(lines):
    print(*lines, sep="\n", flush=True)


def say(*lines):
    print(*lines, sep="\n", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
