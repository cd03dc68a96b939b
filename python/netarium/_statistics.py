"""Comparison of runs and sets. The binary computes what it can: intervals, Welch's test.

This module adds summaries of sweeps, the paired comparison and the number of seeds for a wanted
precision.
"""

from __future__ import annotations

import difflib
import fnmatch
import math
import re
import statistics
from typing import Any, Iterable, NamedTuple

from . import _binary
from ._run import PathLike, Run, RunSet
from ._table import Column, Row, Table, plain_columns

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

    def needed(self, half_width: float | str) -> int:
        """The number of values, at least 2, for an interval of mean ± `half_width`.

        `half_width` is a number in the unit of the values, or a share of the mean such as `1 %`.
        It assumes that mean and standard deviation stay as they are.
        """
        wanted = half_width
        if isinstance(wanted, str):
            found = re.fullmatch(r"\s*([0-9.]+)\s*%\s*", wanted)
            if not found:
                raise ValueError(f'half_width={wanted!r} is not a share; write for example "1 %"')
            wanted = abs(self.mean) * float(found[1]) / 100
        if self.n < 2 or not wanted > 0:
            raise ValueError("the standard deviation needs 2 values, and half_width is above 0")
        n = max(2, math.ceil((1.96 * self.sd / wanted) ** 2))
        while quantile(n - 1) * self.sd / math.sqrt(n) > wanted:
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


Runs = RunSet | Table
"""Replicated runs: a set, or the table of a sweep."""


def summary(runs: Runs, *metrics: str, precision: float | str | None = None) -> Table:
    """Mean, standard deviation and 95 % interval over the seeds of each combination of values.

    Arguments:
        runs: A set of runs, or the table of a sweep.
        metrics: Patterns of names of metrics, for example `flow.*.goodput.mean`; default: all.
        precision: Wanted half width of the interval; see `Interval.needed`.

    Returns a table with a row for each combination and metric, in the order of `metrics`: the swept
    values, `metric`, `unit`, `n`, `mean`, `sd`, `low`, `high` and, with `precision`, the number of
    seeds `needed`. `needed` is None with one value, and for a share of a mean of 0.
    """
    table = runs.table if isinstance(runs, RunSet) else runs
    names = [column.name for column in table.columns]
    fields = names[: names.index("seed")]
    known = table.columns[names.index("outcome") + 1 : -1]
    matching = (c for m in metrics or "*" for c in known if fnmatch.fnmatchcase(c.name, m))
    chosen = list(dict.fromkeys(matching))
    if not chosen:
        close = difflib.get_close_matches(metrics[0] if metrics else "", [c.name for c in known])
        raise ValueError(f"the runs have no metric {', '.join(metrics)}; similar: {close}")
    columns = [*table.columns[: len(fields)], *plain_columns(metric=str, unit=str, n=int)]
    columns += plain_columns(**dict.fromkeys(Interval._fields[1:], float))
    columns += [] if precision is None else [Column("needed", "runs", int)]
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in table:
        groups.setdefault(tuple(row[field] for field in fields), []).append(row)
    found: list[dict[str, Any]] = []
    for values, members in groups.items():
        for name, unit, _ in chosen:
            measured = [row[name] for row in members if row[name] is not None]
            if not measured:
                continue
            of = Interval.of(measured)
            head = dict(zip(fields, values), metric=name, unit=unit)
            found.append({**head, **of._asdict()})
            is_share_of_zero = isinstance(precision, str) and of.mean == 0
            if precision is not None and of.n > 1 and not is_share_of_zero:
                found[-1]["needed"] = of.needed(precision)
    return Table.of_objects("summary", columns, found)


def paired(first: Runs, second: Runs, metric: str) -> Interval:
    """The mean of the differences, second minus first, over runs with the same seed.

    Variation that the seed causes in both cancels out. The difference is significant if 0 is
    outside the interval. Of a sweep, each argument is one combination: `table.where(…)`. Raises
    ValueError if a seed occurs twice, or no seed has the metric in both.
    """
    before: dict[int, float] = {}
    after: dict[int, float] = {}
    for found, runs in ((before, first), (after, second)):
        for row in runs.table if isinstance(runs, RunSet) else runs:
            if row.seed in found:
                what = f"seed {row.seed} has several runs"
                raise ValueError(f"{what}; select one combination with table.where(…)")
            if row.get(metric) is not None:
                found[row.seed] = row[metric]
    differences = [after[seed] - value for seed, value in before.items() if seed in after]
    if not differences:
        raise ValueError(f"no seed has the metric {metric} in both")
    return Interval.of(differences)


def diff(
    before: Run | RunSet | PathLike,
    after: Run | RunSet | PathLike,
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
    folders = [str(getattr(of, "folder", of)) for of in (before, after)]
    words = [word for name in metrics for word in ("--metric", name)]
    words += [word for limit in tolerances for word in ("--tolerance", limit)]
    # Exit code 1: a metric changed beyond its tolerance.
    found = _binary.call("diff", *words, *folders, codes=(0, 1))
    columns = plain_columns(metric=str, unit=str, first=float, second=float, relative=float)
    columns += plain_columns(changed=bool, p=float, low=float, high=float)
    changes = found[0]["changes"]
    return Table.of_objects("diff", columns, [{**c, **c.get("difference", {})} for c in changes])
