"""Slowdown of requests, as the paper defines it."""

from __future__ import annotations

import math
from typing import Any, Iterable, NamedTuple

import polars

from netarium_papers import Run

# Rate in bytes per second and RTT of the idle path.
RATE, ROUND_TRIP_S = 12e6, 0.05
DEFINITION = (
    "Slowdown is the time from a request to the end of its response, divided by (size / 12 MB/s + "
    "50 ms). Quantiles are those of the requests of all seeds together. A request without a "
    "response at the end of the run is slower than all others."
)


class Sizes(NamedTuple):
    """A range of response sizes in bytes."""

    label: str
    above: float
    to: float


ALL = Sizes("all", -1, math.inf)
SMALL = Sizes("up to 10 kB", -1, 1e4)
MEDIUM = Sizes("10 kB to 1 MB", 1e4, 1e6)
LARGE = Sizes("above 1 MB", 1e6, math.inf)
CLASSES = (ALL, SMALL, MEDIUM, LARGE)


class Requests:
    """Requests of runs that differ in their seeds: frames with start in s, size and slowdown."""

    def __init__(self, frames: Iterable[Any]) -> None:
        self._frames = list(frames)

    @classmethod
    def read(cls, runs: Iterable[Run], flow: str = "requests") -> Requests:
        column = polars.col
        ideal = column("size_bytes") / RATE + ROUND_TRIP_S
        columns = (
            (column("start_ns") / 1e9).alias("start"),
            column("size_bytes").alias("size"),
            ((column("completion_ns") / 1e9).fill_null(math.inf) / ideal).alias("slowdown"),
        )
        frames = (run.rows("transfers", flow=flow) for run in runs)
        return cls(of.drop_nulls(["start_ns", "size_bytes"]).select(columns) for of in frames)

    def between(self, start: float, until: float) -> Requests:
        """Requests that start between two times."""
        is_within = polars.col("start").is_between(start, until, closed="left")
        return Requests(frame.filter(is_within) for frame in self._frames)

    def slowdowns(self, sizes: Sizes = ALL) -> Any:
        """The sorted slowdowns of responses of these sizes."""
        size = polars.col("size")
        chosen = polars.concat(self._frames).filter(size > sizes.above, size <= sizes.to)
        return chosen["slowdown"].sort()

    def quantile(self, share: float, sizes: Sizes = ALL) -> float:
        """A quantile of the slowdowns; infinite without requests."""
        found = self.slowdowns(sizes)
        return float(found[max(math.ceil(share * len(found)), 1) - 1]) if len(found) else math.inf

    def median(self, sizes: Sizes = ALL) -> float:
        return self.quantile(0.5, sizes)

    def medians(self) -> list[float]:
        """The median of each run."""
        return [Requests([frame]).median() for frame in self._frames]

    def distribution(self) -> list[tuple[float, float]]:
        """Slowdowns and % of requests, with more points above 99 %."""
        found = list(self.slowdowns()) or [math.nan]
        shares = [at / 100 for at in range(100)] + [0.99 + at / 4000 for at in range(41)]
        return [(found[int(share * (len(found) - 1))], share * 100) for share in shares]
