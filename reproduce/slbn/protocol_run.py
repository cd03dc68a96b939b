"""Runs of labs under a protocol, and their samples of all sessions over time."""

from __future__ import annotations

import math
from typing import Any, Iterable, Mapping, Optional

import polars

from netarium_papers import Job, Moments, Run, Stage, moments
from netarium_papers.slbn import NAMES

# The short form of a lab: 110 routers, and data as rates.
SMALL = {
    "lab.model": "fluid",
    "generate.1.transit_domains": "2",
    "generate.1.transit_routers": "5",
    "generate.1.domain_links": "0.5",
}
ROUNDING_S = 1e-9
NONE = Moments(0, math.nan, math.nan, math.nan, math.nan)


def samples(control: Any) -> Any:
    """The table `control` of a run in s, ms and %."""
    col = polars.col
    without_rate = col("sessions") - col("assigned")
    error_of_assigned = (col("source_error_abs") * col("assigned")).fill_null(0.0)
    errors = [
        (col(f"{place}_error_{part}") * 100.0).alias(f"{place}_{part}")
        for place in ("source", "bottleneck")
        for part in ("mean", "abs", "p10", "p90")
    ]
    return control.select(
        "sessions",
        *errors,
        at=col("time_ns") / 1e9,
        over=col("bottlenecks_over") * 100.0,
        queue=col("queue_max_packets").fill_null(0),
        queue_ms=col("queue_max_ns").fill_null(0) / 1e6,
        # A session without a rate is off by all of its fair rate.
        error_of_all=((without_rate + error_of_assigned) * 100.0 / col("sessions")).fill_nan(None),
        without_rate=(without_rate * 100.0 / col("sessions")).fill_nan(None),
    )


class ProtocolRun:
    """A run under a protocol with its samples, a polars.DataFrame with these columns:

    - `at`: time in s; `sessions`: the number of sessions
    - `source_…` and `bottleneck_…` with `mean`, `abs`, `p10`, `p90`: errors of the rates of
      sessions, and of their sums at links that limit sessions, in %; null without any rate
    - `over`: the share of these links that are more than 5 % over their capacity, in %
    - `queue`, `queue_ms`: the largest queue since the last sample, in packets and in ms to send it
    - `error_of_all`, `without_rate`: the mean absolute error of all sessions, and the share of
      those without a rate, in %
    """

    def __init__(self, run: Run, label: str) -> None:
        self.run, self.label = run, label
        self.samples = samples(run.frame("control"))
        self.summary: dict[str, Any] = run.record["control"]

    @property
    def end(self) -> float:
        """The time of the last sample in s."""
        return float(self.samples["at"][-1])

    def at(self, time: float) -> Optional[dict[str, Any]]:
        """The last sample up to a time."""
        found = self.samples.filter(polars.col("at") <= time + ROUNDING_S)
        return dict(found.row(-1, named=True)) if len(found) else None

    def last(self, column: str) -> float:
        """The value of the last sample; NaN without one."""
        return self.points(column)[-1][1]

    def points(
        self, column: str, start: float = -math.inf, end: float = math.inf
    ) -> list[tuple[float, float]]:
        """Times and values after `start` and up to `end`; NaN where there is no value."""
        pairs = zip(self.samples["at"].to_list(), self.samples[column].to_list())
        return [
            (at, math.nan if value is None else value)
            for at, value in pairs
            if start + ROUNDING_S < at <= end + ROUNDING_S
        ]

    def moments(self, column: str, start: float = -math.inf, end: float = math.inf) -> Moments:
        """Moments of the values after `start` and up to `end`; NaN without any."""
        found = [value for _, value in self.points(column, start, end) if not math.isnan(value)]
        return moments(found) if found else NONE


def job(stage: Stage, lab: str, protocol: str, short: Mapping[str, Any], suffix: str = "") -> Job:
    """A lab under a protocol; `short` are the settings that make it small."""
    found = Job(f"slbn/{lab}.toml", protocol + suffix, "virtual").set("control.protocol", protocol)
    for field, value in {**SMALL, **short}.items() if stage.short else ():
        found = found.set(field, value)
    return found


def protocol_runs(
    stage: Stage,
    lab: str,
    protocols: Iterable[str],
    short: Mapping[str, Any],
    one_at_a_time: bool = False,
) -> dict[str, ProtocolRun]:
    """Runs of a lab under each protocol; one at a time if a run needs much memory."""
    jobs = [job(stage, lab, protocol, short) for protocol in protocols]
    batches = [[one] for one in jobs] if one_at_a_time else [jobs]
    runs = [run for batch in batches for run in stage.run(batch)]
    return {run.job.name: ProtocolRun(run, NAMES[run.job.name]) for run in runs}
