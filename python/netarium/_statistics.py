"""Comparison of runs and sets. The binary computes what it can: intervals, Welch's test.

This module adds the paired comparison and the number of seeds for a wanted precision.
"""

from __future__ import annotations

import math
import statistics
from typing import Iterable, List, NamedTuple, Union

from . import _binary
from ._run import PathLike, Run, RunSet
from ._table import Column, Table

# Quantiles of Student's t distribution, 97.5 %, for 1 to 4 degrees of freedom.
FEW = (12.7062047, 4.3026527, 3.1824463, 2.7764451)


class Interval(NamedTuple):
    """A mean of `n` values with its standard deviation and 95 % confidence interval.

    With one value, `sd` is 0 and the interval is from minus infinity to infinity.
    """

    n: int
    mean: float
    sd: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Interval:
        """The interval for the mean of independent values: mean ± t·s/√n."""
        found = list(values)
        mean, n = statistics.fmean(found), len(found)
        if n == 1:
            return cls(n, mean, 0.0, -math.inf, math.inf)
        sd = statistics.stdev(found)
        half = quantile(n - 1) * sd / math.sqrt(n)
        return cls(n, mean, sd, mean - half, mean + half)

    def needed(self, half_width: float) -> int:
        """The number of values, at least 2, for an interval of mean ± `half_width`, in its unit.

        It assumes that the standard deviation stays as it is.
        """
        if self.n < 2 or not half_width > 0:
            raise ValueError("the standard deviation needs 2 values, and half_width is above 0")
        n = max(2, math.ceil((1.96 * self.sd / half_width) ** 2))
        while quantile(n - 1) * self.sd / math.sqrt(n) > half_width:
            n += 1
        return n


def quantile(freedom: int) -> float:
    """The 97.5 % quantile of Student's t distribution, within 0.1 %."""
    if freedom <= len(FEW):
        return FEW[freedom - 1]
    # Cornish-Fisher expansion around the normal quantile (Abramowitz and Stegun, 26.7.5).
    z, v = 1.959964, float(freedom)
    g1 = (z**3 + z) / 4
    g2 = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    g3 = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    g4 = (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160
    return z + g1 / v + g2 / v**2 + g3 / v**3 + g4 / v**4


def paired(first: RunSet, second: RunSet, metric: str) -> Interval:
    """The mean of the differences, second minus first, over runs with the same seed.

    Variation that the seed causes in both sets cancels out. The difference is significant if 0 is
    outside the interval. Raises ValueError if no seed has the metric in both sets.
    """
    before, after = ({run.seed: run.metrics.get(metric) for run in s.runs} for s in (first, second))
    pairs = [(before[seed], after.get(seed)) for seed in before]
    differences = [b.value - a.value for a, b in pairs if a is not None and b is not None]
    if not differences:
        raise ValueError(f"no seed has the metric {metric} in both sets")
    return Interval.of(differences)


def diff(
    before: Union[Run, RunSet, PathLike],
    after: Union[Run, RunSet, PathLike],
    *,
    metrics: Iterable[str] = (),
    tolerances: Iterable[str] = (),
) -> Table:
    """Compares two runs, or sets of runs, as `netarium diff` does.

    Arguments:
        metrics: Patterns of names of metrics, for example `flow.*.goodput`.
        tolerances: For example `5 %` or `*.delay.p99=2 ms`.

    Returns a table with a row for each metric: unit, both values, the relative change, whether it
    changed, for sets the adjusted p-value and the 95 % interval of the difference.
    """
    folders = [str(of.folder if isinstance(of, (Run, RunSet)) else of) for of in (before, after)]
    words = [word for name in metrics for word in ("--metric", name)]
    words += [word for limit in tolerances for word in ("--tolerance", limit)]
    result = _binary.wait(_binary.start(["diff", "--json", "--quiet", *words, *folders]))
    # Exit code 1: a metric changed beyond its tolerance.
    if result.exit_code not in (0, 1):
        _binary.fail(result)
    columns: List[Column] = [Column("metric", "", str), Column("unit", "", str)]
    types = {"changed": bool}
    names = ("first", "second", "relative", "changed", "p", "low", "high")
    columns += [Column(name, "", types.get(name, float)) for name in names]
    rows = []
    for change in result.objects[0]["changes"]:
        found = {**change, **change.get("difference", {})}
        rows.append(tuple(found.get(column.name) for column in columns))
    return Table.of("diff", columns, rows)
