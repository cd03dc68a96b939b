"""Plots, tables and claims on errors of rates that several figures share."""

from __future__ import annotations

import math
from typing import Any, Iterable, Optional, Sequence

from netarium_papers import Evidence
from netarium_papers.slbn.protocol_run import ProtocolRun

# SLBN's mean absolute error may exceed BFYZ's by this number of percentage points.
EXCESS = "at most 2 points more"
# Rates at bottlenecks may exceed their capacity by this in the mean, in %.
OVER = "at most 5 %"


def plot_errors(
    evidence: Evidence,
    title: str,
    runs: Iterable[ProtocolRun],
    place: str,
    start: float,
    end: float,
    has_bands: bool = True,
    **options: Any,
) -> None:
    """Errors at a `place` (`source`, `bottleneck`) over time; `options` are those of `Plot`."""
    note = "Lines are means, bands reach from the 10th to the 90th percentile."
    options["note"] = note if has_bands else "Means."
    plot = evidence.plot(
        title, "time in s", f"error at {place}s in %", xlim=(start, end), **options
    )
    for run in runs:
        low, high = (
            [value for _, value in run.points(f"{place}_{part}", start, end)]
            for part in ("p10", "p90")
        )
        spread = list(zip(low, high)) if has_bands else ()
        plot.line(run.label, run.points(f"{place}_mean", start, end), spread)
    plot.line("exact", [(start, 0.0), (end, 0.0)], style="reference")


def plot_samples(
    evidence: Evidence,
    title: str,
    y: str,
    runs: Iterable[ProtocolRun],
    column: str,
    **options: Any,
) -> None:
    """A column over time, a line for each run."""
    plot = evidence.plot(title, "time in s", y, **options)
    for run in runs:
        plot.line(run.label, run.points(column))


def cell(value: Optional[float]) -> str:
    return "–" if value is None or math.isnan(value) else f"{value:.2f}"


def spread_cell(sample: dict[str, Any], place: str) -> str:
    """Mean and percentiles, as `8.5 (-11.0, 30.0)`."""
    mean, low, high = (sample[f"{place}_{part}"] for part in ("mean", "p10", "p90"))
    return "–" if mean is None else f"{mean:.1f} ({low:.1f}, {high:.1f})"


def table_errors(evidence: Evidence, runs: Iterable[ProtocolRun], times: Sequence[float]) -> None:
    """Errors at these times, a row for each and each run."""
    heads = "time{:.0f} ms, protocol, sessions, sources, mean amount{:.2f}, bottlenecks, "
    heads += "over 5 %{:.2f}, largest queue"
    table = evidence.table(
        "Errors in %: mean (10th, 90th percentile); the share of bottlenecks more than 5 % "
        "over; the largest queue since the last sample, in packets",
        heads.split(", "),
    )
    for run, sample in ((run, run.at(time)) for time in times for run in runs):
        if sample is not None:
            at, sessions, error, over, queue = (
                sample[key] for key in ("at", "sessions", "source_abs", "over", "queue")
            )
            source, bottleneck = (spread_cell(sample, of) for of in ("source", "bottleneck"))
            table.row(at * 1e3, run.label, sessions, source, error, bottleneck, over, queue)


def claim_as_accurate(evidence: Evidence, slbn: ProtocolRun, bfyz: ProtocolRun) -> None:
    """SLBN's errors are not larger than those of a protocol that knows all sessions."""
    others = dict(bfyz.points("source_abs"))
    pairs = [(at, own, others.get(at, math.nan)) for at, own in slbn.points("source_abs")]
    # The last one of the largest, without NaN.
    found = [(own - other, at, own, other) for at, own, other in pairs if own - other < math.inf]
    excess, at, own, other = max(found, default=(math.nan,) * 4)
    what = "mean amount of the errors at sources, SLBN beside BFYZ, at every sample"
    ours = f"at most {excess:+.2f} points, {own:.2f} beside {other:.2f} % at {at:.2f} s"
    evidence.expect(what, "as accurate as BFYZ", excess, EXCESS, ours)


def claim_not_over(
    evidence: Evidence, run: ProtocolRun, start: float, end: float, paper: str
) -> None:
    """Rates at bottlenecks do not exceed their capacity by much."""
    pairs = [(value, at) for at, value in run.points("bottleneck_mean", start, end)]
    over, at = max((pair for pair in pairs if pair[0] < math.inf), default=(math.nan, math.nan))
    what = f"rates at bottlenecks over their capacity, in the mean ({run.label})"
    evidence.expect(what, paper, over, OVER, f"at most {over:+.2f} %, at {at:.2f} s")


def table_cost(evidence: Evidence, runs: Iterable[ProtocolRun]) -> None:
    """The cost of each run."""
    heads = (
        "run, sessions, events{:.1f} M, time{:.1f} s, events/s{:.1f} M, oracle{:.1f} s, "
        "memory{:.2f} GiB, bytes a session{:.0f}, control{:.2f} %, numbers a link, bytes a link, "
        "bytes a packet"
    )
    table = evidence.table(
        "What it took: time of the simulation and, within it, of the exact rates that it "
        "is measured by; memory of the process; control's share of all bytes; state",
        heads.split(", "),
    )
    for run in runs:
        of, cost = run.summary, run.run.record["simulation"]
        memory = cost["peak_memory_bytes"]
        gib = None if memory is None else memory / (1 << 30)
        events, rate = cost["events"] / 1e6, cost["events_per_s"] / 1e6
        speed = (events, cost["wall_s"], rate, of["oracle_s"], gib)
        numbers = f"{of['link_numbers_mean']:.1f}, at most {of['link_numbers_max']}"
        size = f"{of['link_bytes_mean']:.0f}, at most {of['link_bytes_max']}"
        state = (of["session_bytes"], of["control_share"] * 100, numbers, size)
        table.row(run.label, of["joined"], *speed, *state, of["packet_bytes"])
