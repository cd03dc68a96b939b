"""States and rates of bundles, and queues of links, over time."""

import math
from typing import Any, Sequence

from netarium_papers import Run

Points = list[tuple[float, float]]
States = list[tuple[float, str]]


def bundle(run: Run, column: str, unit: float = 0) -> list[tuple[float, Any]]:
    """A column of the samples of the bundle `site`, in multiples of a unit; NaN if null."""
    rows = run.rows("bundles", bundle="site")
    values = [math.nan if of is None else of / unit if unit else of for of in rows[column]]
    return [(at / 1e9, value) for at, value in zip(rows["time_ns"], values)]


def states(run: Run) -> States:
    return bundle(run, "state")


def first(found: States, state: str, start: float = 0) -> float:
    """The first time from `start` on in a state; infinite if there is none."""
    return next((at for at, of in found if at >= start and of == state), math.inf)


def last(found: States, state: str, until: float) -> float:
    """The last time up to `until` in a state; infinite if there is none."""
    return next((at for at, of in reversed(found) if at <= until and of == state), math.inf)


def share(found: States, state: str, start: float, until: float) -> float:
    """The share of samples between two times in a state."""
    within = [of for at, of in found if start < at <= until]
    return within.count(state) / max(len(within), 1)


def queue_bytes(run: Run, link: str = "bottleneck") -> Points:
    """Bytes queued for a link in the direction up."""
    rows = run.rows("links", link=link, direction="up").drop_nulls("queue_bytes")
    return [(at / 1e9, size) for at, size in zip(rows["time_ns"], rows["queue_bytes"])]


def queue_ms(run: Run, mbits: float, link: str = "bottleneck") -> Points:
    """Time that it takes to send the queue of a link at a rate."""
    return [(at, size * 8e-3 / mbits) for at, size in queue_bytes(run, link)]


def between(points: Sequence[tuple[float, float]], start: float, until: float) -> list[float]:
    """The finite values between two times."""
    return [value for at, value in points if start < at <= until and math.isfinite(value)]


def mean(points: Points, start: float = 0, until: float = math.inf) -> float:
    """The mean between two times; NaN without values."""
    values = between(points, start, until)
    return sum(values) / len(values) if values else math.nan


def goodput_mbits(
    run: Run, flow: str, start: float = 0, until: float = math.inf, step: float = 1
) -> float:
    """Mean goodput of a flow between two times."""
    return mean(run.flow_rate(flow, step), start, until) / 1e6


def coarse(points: Points, step: float) -> Points:
    """Means in equal steps; an incomplete last step is omitted."""
    steps: list[list[float]] = [[] for _ in range(int(points[-1][0] / step) if points else 0)]
    for at, value in points:
        if math.isfinite(value) and int(at / step) < len(steps):
            steps[int(at / step)].append(value)
    means = (sum(values) / len(values) if values else math.nan for values in steps)
    return [((index + 0.5) * step, value) for index, value in enumerate(means)]
