"""Runs the workspace's tests; prints a line each target, and of failed tests all that they said.

A test that runs programs on the wall clock beside other tests can be starved, above all where a
hypervisor takes the CPU away. What fails in such a crate decides alone, in one of two more tries,
and both are told. All other tests are deterministic or draw their cases from the seed that is told:
they have one try. In CI the seed is always the same, so that a change is judged by what it changes;
elsewhere each run draws new cases, unless PROPTEST_RNG_SEED says which.
"""

import os
import random
import re
import subprocess
import sys

WALL_CLOCK = {
    "netarium",
    "netarium-bench",
    "netarium-bundler-live",
    "netarium-cluster-live",
    "netarium-collector-live",
    "netarium-emu",
    "netarium-mctcp-live",
    "netarium-serve",
    "netarium-sys",
}
TRIES_ALONE = 2
TARGET = re.compile(r" +(Running|Doc-tests) ")
SHOWN = re.compile(r" +(Compiling|Running|Doc-tests)|error|warning|test .* FAILED|test result")
RERUN = re.compile(r"error: test failed, to rerun pass `(.*)`")


def main():
    drawn = 1 if in_ci() else random.getrandbits(32)
    seed = os.environ.setdefault("PROPTEST_RNG_SEED", str(drawn))
    say(f"test: property tests draw their cases with PROPTEST_RNG_SEED={seed}")
    before = cpu_times()
    status, lines = run(["cargo", "test", "--workspace", "--locked", "--no-fail-fast", "--"])
    say(f"test: meanwhile {share_of_cpu(before)}")
    passed = status == 0
    if not passed:
        failed, said = failures(lines)
        print_all(said if failed else lines[-60:])
        # A target that ends without naming a test has crashed; none where something was not built.
        passed = bool(failed) and all([alone(target, name) for target, name in failed])
    skipped = sorted({line for line in lines if line.startswith("SKIPPED")})
    if skipped:
        say("test: skipped:", *(f"    {line}" for line in skipped))
        if in_ci():
            say("test: CI must not skip")
            passed = False
    return 0 if passed else 1


def in_ci():
    return os.environ.get("CI") == "true"


def run(command, quiet=False):
    """Its status and lines, with those that matter shown as they come unless it is quiet."""
    lines = []
    with subprocess.Popen(
        [*command, "--show-output"],
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
    """The failed tests as (cargo's words for their target, name), None for what has no name, and
    what they and the compiler said of it."""
    failed, names, said = [], [], []
    inside = quoted = False
    target, begins = None, 0
    for at, line in enumerate(lines):
        if TARGET.match(line):
            target, begins, names, quoted = line, at, [], False
        elif line == "failures:":
            if not inside:
                said += ["", target]
            inside, names = True, []
        elif inside and line.startswith("---- "):
            quoted = True
        elif inside and re.fullmatch(r"    \S.*", line):
            names.append(line.strip())
        elif rerun := RERUN.match(line):
            failed += [(rerun[1], name) for name in names or [None]]
            # A harness of its own does not keep what each test said until the end.
            if not quoted:
                said += ["", *lines[max(begins, at - 60) : at]]
        if inside or line.startswith(("error", "Caused by:", "  process ")):
            said.append(line)
        if line.startswith("test result: "):
            inside = False
    return failed, said


def alone(target, name):
    """Whether a test that failed among others passes alone, where that is allowed."""
    _, package, *kind = target.split()
    if name is None or package not in WALL_CLOCK:
        say(f"test: FAILED: {name or 'a whole target'} ({target})")
        return False
    for _ in range(TRIES_ALONE):
        before = cpu_times()
        # With the whole workspace named, dependencies keep their features and are not built again.
        again = ["cargo", "test", "--workspace", "--locked", *kind, "--", "--exact", name]
        status, lines = run(again, quiet=True)
        if status == 0 and any(line.startswith(f"test {name} ... ok") for line in lines):
            say(f"test: failed among others and passed alone: {name} ({target})")
            return True
        print_all(failures(lines)[1])
        say(f"test: meanwhile {share_of_cpu(before)}")
    say(f"test: FAILED alone too: {name} ({target})")
    return False


def cpu_times():
    """Of all CPUs since boot, in ticks (proc(5), /proc/stat)."""
    with open("/proc/stat") as stat:
        return [int(ticks) for ticks in stat.readline().split()[1:9]]


def share_of_cpu(before):
    user, nice, system, idle, waiting, irq, softirq, stolen = (
        now - then for now, then in zip(cpu_times(), before)
    )
    total = max(1, user + nice + system + idle + waiting + irq + softirq + stolen)
    idle, stolen = (100 * part / total for part in (idle + waiting, stolen))
    return f"{idle:.0f} % of the CPU were idle and {stolen:.0f} % stolen"


def print_all(lines):
    print(*lines, sep="\n", flush=True)


def say(*lines):
    print(*lines, sep="\n", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
