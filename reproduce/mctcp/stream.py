"""Measurements of the stream, which is the flow `bulk` in all labs, and claims about them."""

from __future__ import annotations

import math
from typing import Iterable, NamedTuple, Optional, Sequence

from netarium_papers import Evidence, Run, quantile
from netarium_papers.mctcp import TRANSPORTS

BULK = "bulk"
END = 20  # Duration of most labs in s.
Points = list[tuple[float, float]]


def goodput(run: Run, start: float = 0, end: float = END, flow: str = BULK) -> float:
    """Mean goodput between two times in Mbit/s; it is 0 after the end of the run."""
    step = float(run.record["interval_s"])
    rates = [rate for at, rate in run.flow_rate(flow, step) if start < at < end]
    return sum(rates) * step / (end - start) / 1e6


def gap(run: Run, start: float = 0, end: float = math.inf) -> float:
    """The longest time in s without a byte at the receiver, sampled between two times."""
    samples = run.flow_samples(BULK, "gap_ns")
    return max((ns / 1e9 for at, ns in samples if start < at <= end), default=0.0)


def arrivals(run: Run) -> list[float]:
    """The ends of the sampling intervals in which bytes arrived."""
    return [at for at, count in run.flow_samples(BULK, "received_bytes") if count > 0]


def first_byte(run: Run, start: float = 0) -> float:
    """The time in s from `start` to the next byte, to the end of its sampling interval."""
    step = run.record["interval_s"]
    return next((at for at in arrivals(run) if at - step >= start), math.inf) - start


def stalled(runs: Sequence[Run], seconds: float) -> str:
    """The number of runs with an incomplete stream without a byte in the last seconds."""
    incomplete = [run for run in runs if run.flow(BULK)["completion_s"] is None]
    silent = [run.elapsed_s - max(arrivals(run), default=0.0) for run in incomplete]
    return f"{sum(time >= seconds for time in silent)} of {len(runs)}"


def reordered_kb(run: Run) -> float:
    """The maximum of bytes that wait at the receiver for earlier bytes, in kB."""
    found = run.flow(BULK)["reorder_max_bytes"]
    return math.nan if found is None else found / 1e3


def reinjected(run: Run) -> float:
    """Bytes sent again over another path, in % of received bytes."""
    flow = run.flow(BULK)
    found = flow["reinjected_bytes"]
    return math.nan if found is None else found / max(flow["received_bytes"], 1) * 100


def ratio(value: float, of: float) -> float:
    return value / of if of else math.nan


def number(value: float) -> str:
    """About three digits."""
    if not math.isfinite(value):
        return "–"
    size = abs(value)
    digits = 0 if size >= 100 else 1 if size >= 20 else 2 if size >= 0.1 or size == 0 else 4
    return f"{value:.{digits}f}"


class Spread(NamedTuple):
    """Median, minimum and maximum of runs; NaN if there is none, or one has no value."""

    median: float = math.nan
    min: float = math.nan
    max: float = math.nan

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        found = list(values)
        if not found or any(map(math.isnan, found)):
            return cls()
        return cls(quantile(found, 0.5), min(found), max(found))

    def over(self, one: float) -> Spread:
        return Spread(*(ratio(value, one) for value in self))

    def __str__(self) -> str:
        """`9.53 (9.51 to 9.56)`."""
        if math.isnan(self.median):
            return "–"
        return f"{number(self.median)} ({number(self.min)} to {number(self.max)})"


def claim(
    evidence: Evidence,
    clock: str,
    what: str,
    spreads: Sequence[Spread],
    over: float = 1.0,
    at_least: Optional[float] = None,
    at_most: float = math.inf,
) -> None:
    """Claims a bound of MCTCP's median, which is the first; the kernel's and TCP's are beside it.

    Spreads are divided by `over`.
    """
    ours, *others = (of.over(over) for of in spreads)
    text, holds = f"at most {number(at_most)}", ours.median <= at_most
    if at_least is not None:
        text, holds = f"at least {number(at_least)}", ours.median >= at_least
    named = zip(list(TRANSPORTS.values())[1:], others)
    beside = ", ".join(f"{name} {of}" for name, of in named if not math.isnan(of.median))
    required = f"required: {text}" + (f"; {beside}" if beside else "")
    evidence.claim(f"{what} ({clock})", required, str(ours), holds)


def mean_rates(runs: Iterable[Points]) -> tuple[Points, Points]:
    """The mean of rates over time in Mbit/s, and their minimum and maximum, from bit/s."""
    columns = list(zip(*runs))
    values = [(column[0][0], [rate / 1e6 for _, rate in column]) for column in columns]
    mean = [(at, sum(rates) / len(rates)) for at, rates in values]
    return mean, [(min(rates), max(rates)) for _, rates in values]
