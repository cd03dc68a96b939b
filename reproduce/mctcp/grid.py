"""Runs of labs with each carrier of the stream."""

import dataclasses
import json
from collections import defaultdict
from typing import Any, Callable, Mapping, NamedTuple, Sequence

from netarium_papers import Job, Run, Stage
from netarium_papers.mctcp import CARRIERS, suits
from netarium_papers.mctcp.stream import BULK, END, Spread, goodput

Read = Callable[..., float]
AT_ONCE = 6  # On the wall clock: each run uses a tenth of a processor.
TOLERANCE = "5 ms"  # Less than a fifth of the shortest time to empty a full queue.


class Lab(NamedTuple):
    """A lab, and its links at the server, one for each path."""

    file: str
    links: tuple[str, ...]


PATHS = Lab("mctcp/paths.toml", tuple(f"path{number}" for number in range(1, 9)))
BOTTLENECK = Lab("mctcp/bottleneck.toml", ("path1", "path2"))


def with_tcp(paths: int) -> tuple[str, ...]:
    """Both multipath carriers, and one TCP connection on each of the first paths."""
    return (*CARRIERS, *(f"tcp{number}" for number in range(1, paths + 1)))


def label(carrier: str) -> str:
    return CARRIERS.get(carrier) or f"TCP, path {carrier[3:]}"


@dataclasses.dataclass(frozen=True)
class Case:
    """A lab over its first paths with settings and carriers (`mctcp`, `mptcp`, `tcp1` …).

    With `step_ms` the flow starts that much later with each seed, so that events hit it in
    different states.
    """

    lab: Lab
    paths: int
    name: str
    label: str
    settings: Mapping[str, str] = dataclasses.field(default_factory=dict)
    carriers: Sequence[str] = tuple(CARRIERS)
    step_ms: int = 0

    def job(self, carrier: str, clock: str, seed: int) -> Job:
        is_tcp, links = carrier not in CARRIERS, self.lab.links
        used = [links[int(carrier[3:]) - 1]] if is_tcp else links[: self.paths]
        settings = {"lab.seed": str(seed)}
        if clock == "wall":
            settings["lab.tolerance"] = TOLERANCE
        if self.step_ms:
            settings["flow.bulk.start"] = f"{self.step_ms * seed} ms"
        settings["flow.bulk.transport"] = "tcp" if is_tcp else carrier
        if not is_tcp:
            settings["flow.bulk.via"] = json.dumps(used)
        settings.update({f"link.{link}.state": "down" for link in links if link not in used})
        settings.update(self.settings)
        return Job(self.lab.file, f"{self.name}-{carrier}-{seed}", clock, settings=settings)


class Grid:
    """Runs of each case with each carrier on each clock, so often, or once in the short form."""

    def __init__(
        self, stage: Stage, cases: Sequence[Case], virtual: int = 5, wall: int = 5
    ) -> None:
        count = {"virtual": virtual, "wall": wall}
        if stage.short:
            count = {clock: min(of, 1) for clock, of in count.items()}
        cells = [
            (case, carrier, clock, seed)
            for clock in stage.clocks()
            for case in cases
            for carrier in case.carriers
            if suits(carrier, clock)
            for seed in range(1, count[clock] + 1)
        ]
        jobs = [case.job(carrier, clock, seed) for case, carrier, clock, seed in cells]
        self._runs: dict[tuple[str, str, str], list[Run]] = defaultdict(list)
        for (case, carrier, clock, _), run in zip(cells, stage.run(jobs, at_once=AT_ONCE)):
            self._runs[case.name, carrier, clock].append(run)

    def runs(self, case: Case, carrier: str, clock: str) -> list[Run]:
        return self._runs[case.name, carrier, clock]

    def spreads(self, case: Case, clock: str, read: Read, *args: Any) -> list[Spread]:
        """Spreads of `read(run, *args)`, for each carrier of the case."""
        cells = [self.runs(case, carrier, clock) for carrier in case.carriers]
        return [Spread.of(read(run, *args) for run in runs) for runs in cells]

    def mctcp(self, case: Case, clock: str, read: Read, *args: Any) -> Spread:
        """The spread of `read(run, *args)` with MCTCP."""
        return Spread.of(read(run, *args) for run in self.runs(case, "mctcp", clock))

    def goodputs(self, case: Case, clock: str, end: float = END) -> list[Spread]:
        """Goodput from the start to `end` in Mbit/s, for each carrier of the case."""
        return self.spreads(case, clock, goodput, 0, end)


def median_sum(spreads: Sequence[Spread]) -> float:
    """The sum of medians."""
    return sum(of.median for of in spreads)


def shares(runs: Sequence[Run]) -> list[Spread]:
    """Goodput of the stream, and of the connection beside it, from 10 s to 60 s, in Mbit/s."""
    flows = (BULK, "beside")
    return [Spread.of(goodput(run, 10, 60, flow) for run in runs) for flow in flows]
