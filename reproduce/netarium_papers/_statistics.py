"""Statistics of samples."""

from __future__ import annotations

import math
from typing import Iterable, NamedTuple, Sequence

Points = list[tuple[float, float]]


def cdf(values: Iterable[float]) -> Points:
    """The cumulative distribution: each finite value, and the % of values that are not larger."""
    found = sorted(value for value in values if math.isfinite(value))
    return [(value, (place + 1) / len(found) * 100.0) for place, value in enumerate(found)]


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that the share (0 to 1) of the values does not exceed; NaN without any."""
    found = sorted(values)
    if not found:
        return math.nan
    return found[max(math.ceil(min(max(share, 0.0), 1.0) * len(found)), 1) - 1]


class Moments(NamedTuple):
    """Number, mean, standard deviation (divided by n), minimum and maximum; 0 without values."""

    count: int  # type: ignore[assignment]
    mean: float
    deviation: float
    min: float
    max: float


def moments(values: Iterable[float]) -> Moments:
    found = list(values)
    if not found:
        return Moments(0, 0.0, 0.0, 0.0, 0.0)
    mean = sum(found) / len(found)
    squares = sum((value - mean) ** 2 for value in found)
    return Moments(len(found), mean, math.sqrt(squares / len(found)), min(found), max(found))


def rates(samples: Iterable[tuple[float, float, float]], step: float, until: float) -> Points:
    """Counts per second in equal steps from 0 to `until`: the middle of each step, and its rate.

    A sample is the end of its interval and the length of it in s, and a count, which is spread
    evenly over the interval. An incomplete last step is omitted.
    """
    steps = max(math.floor(until / step + 1e-6), 0)
    sums = [0.0] * steps
    for end, length, count in samples:
        if length <= 0.0:
            continue
        start = end - length
        first, last = max(math.floor(start / step), 0), math.ceil(end / step)
        for index in range(first, min(last, steps)):
            overlap = max(min((index + 1) * step, end) - max(index * step, start), 0.0)
            sums[index] += count * overlap / length
    return [((index + 0.5) * step, total / step) for index, total in enumerate(sums)]
