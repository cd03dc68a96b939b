"""Checks on the wall clock: TCP of the kernel through the same gateways, one run of each case."""

import functools
import math
from typing import Callable, NamedTuple, Sequence

from netarium_papers import Figure, Run, Stage, figure
from netarium_papers.bundler import BOTTLENECK_MBITS
from netarium_papers.bundler.cases import BOTH, Case
from netarium_papers.bundler.timeline import coarse, queue_ms

TOLERANCE = "2.5 ms"  # Lateness of packets in a trusted run: 5 % of the RTT.
NOTE = (
    "On the wall clock, TCP of the kernel crosses the emulated network and the gateways in real "
    "time. Each setting has one run, in a size for a small machine. These claims check that the "
    "results do not depend on the TCP and the clock of the simulation; their ranges are wide. The "
    "same run on the virtual clock is beside them."
)


class Checked(NamedTuple):
    """A run on the wall clock and the values read from it."""

    label: str
    run: Run
    values: list[float]


def checked_figure(
    id: str, title: str, takes: str, check: Callable[[Stage], None]
) -> Callable[[Callable[[Stage], None]], Figure]:
    """Makes a figure of a function for the virtual clock and a check on the wall clock."""

    def decorated(simulate: Callable[[Stage], None]) -> Figure:
        @functools.wraps(simulate)
        def make(stage: Stage) -> None:
            if "virtual" in stage.clocks():
                simulate(stage)
            if "wall" in stage.clocks():
                check(stage)
                stage.note(NOTE)

        return figure(id, title, takes, "virtual wall")(make)

    return decorated


def run_both_clocks(
    stage: Stage,
    lab: str,
    seconds: float,
    heads: Sequence[str],
    read: Callable[[Run], list[float]],
    seed: int = 1,
    cases: Sequence[Case] = BOTH,
) -> list[Checked]:
    """Adds a table of the values of each case on both clocks; returns those of the wall clock."""
    settings = {"lab.duration": f"{seconds:g} s", "lab.tolerance": TOLERANCE}
    checks = [case.set(settings, "check") for case in cases for _ in range(2)]
    clocks = ["wall", "virtual"] * len(cases)
    runs = stage.run([case.job(lab, clock, seed) for case, clock in zip(checks, clocks)])
    title = f"On the wall clock, {seconds:g} s, and the same on the virtual clock"
    table = stage.table(title, ["boxes", "clock", *heads])
    found = [Checked(case.label, run, read(run)) for case, run in zip(checks, runs)]
    for label, run, values in found:
        table.row(label, run.clock, *map(number, values))
    return found[::2]


def plot_queues(
    stage: Stage,
    checked: Sequence[Checked],
    mbits: float = BOTTLENECK_MBITS,
    link: str = "bottleneck",
) -> None:
    """Adds a plot of the queue of a link on the wall clock."""
    title, y, limits = "Queue at the bottleneck (wall clock)", "ms to send the queue", (0, None)
    plot = stage.plot(title, "time in s", y, xlim=limits, ylim=limits, note="Means of 0.5 s.")
    for label, run, _ in checked:
        plot.line(label, coarse(queue_ms(run, mbits, link), 0.5))


def claim(
    stage: Stage, what: str, paper: str, ours: float, low: float, high: float = math.inf
) -> None:
    """A claim on the wall clock, which holds from `low` to `high`."""
    expected = f"{low:g} to {high:g}" if math.isfinite(high) else f"at least {low:g}"
    what, paper = f"check on the wall clock: {what}", f"{paper} (check: {expected})"
    stage.claim(what, paper, number(ours), low <= ours <= high)


def number(value: float) -> str:
    return f"{value:.2f}" if math.isfinite(value) else "–"
