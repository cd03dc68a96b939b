"""Cases: settings of a lab with and without Bundler, their runs and claims."""

from __future__ import annotations

import dataclasses
import math
import statistics
from typing import Any, Callable, Iterable, Mapping, Sequence

from netarium_papers import Job, Run, Stage
from netarium_papers.bundler import BOTTLENECK_MBITS


@dataclasses.dataclass(frozen=True)
class Case:
    """Settings of a lab. The name distinguishes its runs from others; the label is printed."""

    name: str
    label: str
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def set(self, settings: Mapping[str, Any], suffix: str = "", label: str = "") -> Case:
        """The same case with more settings, a suffix of the name, and another label."""
        name = f"{self.name}-{suffix}" if suffix else self.name
        return Case(name, label or self.label, {**self.settings, **settings})

    def job(self, lab: str, clock: str, seed: int) -> Job:
        texts = {"lab.seed": str(seed), **{k: str(v) for k, v in self.settings.items()}}
        return Job(lab, f"{self.name}-{seed}", clock, settings=texts)


STATUS_QUO = Case("status-quo", "status quo", {"bundle.site.mode": "observe"})
BUNDLER = Case("bundler", "Bundler")
BOTH = (STATUS_QUO, BUNDLER)


def run_cases(
    stage: Stage, lab: str, cases: Iterable[Case], seeds: int, clock: str = "virtual"
) -> list[list[Run]]:
    """Runs of a lab with seeds 1 to `seeds`, by case."""
    jobs = [case.job(lab, clock, seed) for case in cases for seed in range(1, seeds + 1)]
    runs = stage.run(jobs)
    return [runs[at : at + seeds] for at in range(0, len(runs), seeds)]


def run_pairs(
    stage: Stage,
    lab: str,
    settings: Mapping[str, Mapping[str, Any]],
    seeds: int,
    clock: str = "virtual",
    cases: Sequence[Case] = BOTH,
) -> list[list[list[Run]]]:
    """Runs of status quo and Bundler with each of the settings, by the suffix of their names."""
    chosen = [case.set(values, suffix) for suffix, values in settings.items() for case in cases]
    runs = run_cases(stage, lab, chosen, seeds, clock)
    return [list(pair) for pair in zip(runs[::2], runs[1::2])]


def average(runs: Iterable[Run], read: Callable[[Run], float]) -> float:
    """The mean over runs."""
    return statistics.fmean(map(read, runs))


def load_share(mbits: float) -> str:
    """A load as a share of the bottleneck's rate."""
    return f"{mbits / BOTTLENECK_MBITS * 100:.6f} %"


def times(ratio: float) -> str:
    return f"{ratio:.2f} ×"


def cell(paper: float, ours: float) -> str:
    """The value of the paper, which may be NaN, and that of the runs."""
    return f"{'–' if math.isnan(paper) else f'{paper:.2f}'} / {ours:.2f}"


def plot_beside_paper(
    stage: Stage,
    title: str,
    x: str,
    y: str,
    rows: Sequence[tuple[float, Sequence[float], Sequence[float] | None]],
    lowest: float = 0,
) -> None:
    """Lines of status quo and Bundler over x; where the paper has values, they are dots."""
    plot = stage.plot(title, x, y, xlim=(0, None), ylim=(lowest, None))
    for at, label in enumerate(("status quo", "Bundler")):
        plot.line(label, [(of, ours[at]) for of, ours, _ in rows])
    for at, label in enumerate(("status quo", "Bundler")):
        points = [(of, paper[at]) for of, _, paper in rows if paper]
        plot.line(f"{label} (paper)", points, style="dots")
