"""The plug-in of pytest: labs as fixtures of tests.

    @pytest.mark.netarium("redis.toml")
    def test_ping(netarium_lab):
        netarium_lab["client"].run(["redis-cli", "-h", "server", "ping"], check=True)

The marker names the lab and has options. `netarium_lab` is the lab, up for the time of the test.
`netarium_run` is the finished run of the lab on the virtual clock. The run is a part of the test:
if it failed, the test fails, and if it is untrusted, `trust` says what happens.
"""

from __future__ import annotations

import dataclasses
import os
import re
import shlex
import shutil
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping

import pytest
from _pytest._code.code import ExceptionRepr
from _pytest.runner import runtestprotocol

from ._errors import CapabilityError, NetariumError
from ._lab import Lab
from ._run import Run
from ._up import Process, RunningLab

LINES_OF_STDERR = 20
MAX_NAME = 120
KILLED_BY_STOP = -9
OUTCOMES = ("passed", "untrusted", "running", "failed")


@dataclasses.dataclass(frozen=True)
class Options:
    """The arguments of the marker.

    Arguments:
        lab: A lab file (relative to the file of the test), a Lab, or a function that makes one.
            Write `lab=` before a function.
        trust: What an untrusted run of a passed test means. `retry:2`: if the machine is the cause,
            execute the test up to two more times with a new lab, then fail. `skip`: skip the test.
            `fail`: fail. Without it, the option `--netarium-trust` counts.
        check: Fail the test if a program or an expectation of the lab failed.
        set, seed, duration, name: Those of `Lab.up` and `Lab.sim`.
    """

    lab: Lab | Callable[[], Lab]
    trust: str
    check: bool = True
    set: Mapping[str, Any] | None = None
    seed: int | None = None
    duration: str | None = None
    name: str | None = None

    @classmethod
    def of(cls, item: pytest.Item) -> Options:
        """Those of the markers of a test. An argument of the closest marker counts."""
        found: dict[str, Any] = {}
        for marker in item.iter_markers("netarium"):
            if len(marker.args) > 1:
                raise TypeError(f"the marker netarium has one argument without a name: {marker}")
            found = {**dict(zip(["lab"], marker.args)), **marker.kwargs, **found}
        if "lab" not in found:
            raise TypeError('the test has no lab: mark it with @pytest.mark.netarium("FILE.toml")')
        if isinstance(found["lab"], (str, os.PathLike)):
            found["lab"] = Lab.from_toml(item.path.parent / found["lab"])
        options = cls(**{"trust": item.config.getoption("--netarium-trust"), **found})
        if not re.fullmatch(r"retry:[0-9]+|skip|fail", options.trust):
            raise ValueError(f'trust={options.trust!r}: write "retry:2", "skip" or "fail"')
        return options


class Attempt:
    """One execution of a test: its runs, and what failed in them."""

    def __init__(self, item: pytest.Item, folder: Path) -> None:
        self.item, self.folder = item, folder
        self.options = Options.of(item)
        self.runs: list[Run] = []
        self.failed_processes: list[Process] = []

    def start(self, method: Callable[..., Any]) -> Any:
        """Calls `Lab.up` or `Lab.sim`. A machine that cannot run the lab skips the test."""
        made = self.options.lab
        lab = made if isinstance(made, Lab) else made()
        worker = os.environ.get("PYTEST_XDIST_WORKER")
        parts = [self.options.name or lab.name, worker, self.item.name]
        name = re.sub(r"[^A-Za-z0-9_.]+", "-", "-".join(filter(None, parts)))[:MAX_NAME].strip("-")
        keys = {key: getattr(self.options, key) for key in ("set", "seed", "duration")}
        before = set(self.folder.glob(f"{name}-*"))
        try:
            return method(lab, name=name, runs=self.folder, **keys)
        except CapabilityError as error:
            required = self.item.config.getoption("--netarium-require")
            raise ended_test(str(error), skip=not required) from None
        except NetariumError as error:
            self.runs += [Run(path) for path in set(self.folder.glob(f"{name}-*")) - before]
            raise ended_test(f"the lab did not start: {error}") from None

    def remove(self) -> None:
        """Removes the run folders, unless the user named a folder for them."""
        if not self.item.config.getoption("--netarium-runs"):
            shutil.rmtree(self.folder, ignore_errors=True)

    def end(self, lab: RunningLab) -> None:
        """Takes the lab down, unless the test has done so."""
        if lab.result.outcome == "running":
            ends = (None, 0, KILLED_BY_STOP)
            self.failed_processes += [p for p in lab.processes if p.exit_code not in ends]
        self.runs.append(lab.down())

    @property
    def outcome(self) -> str:
        """The worst outcome of its runs."""
        outcomes = ["passed", *(run.outcome for run in self.runs)]
        return max(outcomes, key=OUTCOMES.index)

    @property
    def reports(self) -> list[str]:
        """The paths of the reports, or of run folders without one."""
        return [str(run.report if run.report.exists() else run.folder) for run in self.runs]

    def text(self) -> str:
        """Outcome, report, and programs that failed, with the end of their standard error."""
        parts = []
        for run, report in zip(self.runs, self.reports):
            parts += [f"{run.name}: {run.outcome} (seed {run.seed})"]
            parts += [f"  {reason}" for reason in run.reasons]
            parts += [f"  report: {report}"]
            for program in run.programs.values():
                if not program.as_expected:
                    end = program.end
                    if isinstance(end, dict):
                        end = ", ".join(f"{key} {value}" for key, value in end.items())
                    head = f"program {program.name} on {program.node}: {end}"
                    parts += [head, f"  {program.command}", *last_lines(program.stderr)]
        for process in self.failed_processes:
            words = process.command
            line = words[2] if words[:2] == ["/bin/sh", "-c"] else shlex.join(words)
            parts += [f"command on {process.host.name}: exit status {process.exit_code}"]
            parts += [f"  {line}", *last_lines(process.stderr)]
        return "\n".join(parts)


def ended_test(reason: str, skip: bool = False) -> BaseException:
    """The exception that fails or skips a test without a traceback."""
    if skip:
        return pytest.skip.Exception(reason, _use_item_location=True)
    return pytest.fail.Exception(reason, pytrace=False)


def last_lines(stderr: str) -> list[str]:
    lines = stderr.splitlines()
    left_out = len(lines) - LINES_OF_STDERR
    head = [f"  stderr, without its first {left_out} lines:"] if left_out > 0 else ["  stderr:"]
    return head + [f"    {line}" for line in lines[-LINES_OF_STDERR:]] if lines else []


ATTEMPT = pytest.StashKey[Attempt]()


@pytest.fixture
def netarium_attempt(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Attempt:
    """What the other fixtures of the plug-in share in one execution of a test."""
    config, named = request.config, request.config.getoption("--netarium-runs")
    folder = config.invocation_params.dir / named if named else tmp_path_factory.mktemp("netarium")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        attempt = request.node.stash[ATTEMPT] = Attempt(request.node, folder)
        return attempt
    except (NetariumError, OSError, TypeError, ValueError) as error:
        raise ended_test(str(error)) from None


@pytest.fixture
def netarium_lab(netarium_attempt: Attempt) -> Iterator[RunningLab]:
    """The lab of the marker `netarium`, up on the wall clock until the end of the test."""
    lab = netarium_attempt.start(Lab.up)
    yield lab
    netarium_attempt.end(lab)


@pytest.fixture
def netarium_run(netarium_attempt: Attempt) -> Run:
    """The finished run of the lab of the marker `netarium`, on the virtual clock."""
    run: Run = netarium_attempt.start(Lab.sim)
    netarium_attempt.runs.append(run)
    return run


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("netarium", "labs of Netarium")
    group.addoption(
        "--netarium-runs",
        metavar="DIR",
        help="folder for run folders, which are all kept; by default a temporary folder, where "
        "those of tests that passed are removed",
    )
    group.addoption(
        "--netarium-trust",
        metavar="TRUST",
        default="retry:2",
        help="what an untrusted run of a passed test means: retry:N (the default is retry:2), skip "
        "or fail; for tests whose marker does not say it",
    )
    group.addoption(
        "--netarium-require",
        action="store_true",
        help="fail tests whose lab this machine cannot run, instead of skipping them",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "netarium(lab, trust=None, check=True, set=None, seed=None, duration=None, name=None):"
        " the lab of the fixtures netarium_lab and netarium_run",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Executes a test with a lab, again while its run is untrusted, and reports it once."""
    if item.get_closest_marker("netarium") is None:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in reports_of(item, nextitem):
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def reports_of(item: pytest.Item, nextitem: pytest.Item | None) -> list[pytest.TestReport]:
    properties, sections = list(item.user_properties), list(item._report_sections)
    number = 0
    while True:
        number += 1
        item.user_properties[:], item._report_sections[:] = properties, sections
        if ATTEMPT in item.stash:
            del item.stash[ATTEMPT]
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        attempt = item.stash.get(ATTEMPT, None)
        if attempt is None:
            return reports
        passed = all(report.passed and not hasattr(report, "wasxfail") for report in reports)
        verdicts = [run.verdict for run in attempt.runs if run.outcome == "untrusted"]
        # If the machine distorted a run, another attempt can have another outcome.
        distorted = any(not verdict.machine_fit for verdict in verdicts)
        retries = int(attempt.options.trust.partition(":")[2] or 0)
        if not (passed and attempt.outcome == "untrusted" and distorted) or number > retries:
            if passed and reports[1].when == "call":
                reports[1] = judged(attempt, reports[1], number)
            finish(attempt, reports, number)
            return reports
        attempt.remove()


def judged(attempt: Attempt, call: pytest.TestReport, number: int) -> pytest.TestReport:
    """The report of a test that passed, after a look at its runs."""
    outcome, options = attempt.outcome, attempt.options
    if outcome == "passed" or (outcome != "untrusted" and not options.check):
        return call
    times = f" in each of {number} attempts" if number > 1 else ""
    what = f"its run is untrusted{times}" if outcome == "untrusted" else "its lab failed"
    reasons = "; ".join(reason for run in attempt.runs for reason in run.reasons)
    text = f"the test passed, but {what}: {reasons}"
    skip = outcome == "untrusted" and options.trust == "skip"
    error = ended_test("\n  report: ".join([text, *attempt.reports]) if skip else text, skip)

    def end() -> None:
        raise error

    info = pytest.CallInfo.from_call(end, "call")
    info.start, info.stop, info.duration = call.start, call.stop, call.duration
    return pytest.TestReport.from_item_and_call(attempt.item, info)


def finish(attempt: Attempt, reports: list[pytest.TestReport], number: int) -> None:
    """Adds what is known of the runs to the reports, and removes run folders of no use."""
    failed = [report for report in reports if report.failed]
    for report in failed[:1] if attempt.runs else []:
        if isinstance(report.longrepr, ExceptionRepr):
            # Sections of the report itself are not in the JUnit file.
            report.longrepr.addsection("netarium", attempt.text(), "-")
        else:
            report.sections.append(("netarium", attempt.text()))
    if not failed and attempt.outcome != "untrusted":
        attempt.remove()
    found: list[tuple[str, object]] = [("netarium_attempts", number)]
    for run in attempt.runs:
        found += [("netarium_outcome", run.outcome), ("netarium_seed", run.seed)]
        found += [("netarium_folder", str(run.folder))] if run.folder.exists() else []
    # The JUnit file takes the properties of the last report.
    reports[-1].user_properties.extend(found)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Counts tests that were executed again."""
    reports = terminalreporter.stats.get("", [])
    attempts = [dict(report.user_properties).get("netarium_attempts", 1) for report in reports]
    if again := sum(count > 1 for count in attempts):
        text = "netarium: tests executed again, as their runs were untrusted"
        terminalreporter.write_line(f"{text}: {again}")
