"""What a figure works with: its clocks, sizes and runs."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Callable, Iterable, Optional, Sequence, TypeVar

import netarium as nt

from ._evidence import Evidence
from ._jobs import Jobs, PaperError
from ._run import MODELS, Job, Run

__all__ = ["Options", "PaperError", "Stage", "measure", "measure_each"]

T = TypeVar("T")
# A run on the wall clock that is untrusted is repeated, up to this number in total.
TRIES = 3
PACKAGE = Path(__file__).parent


@dataclasses.dataclass(frozen=True)
class Options:
    """How figures are made.

    `cluster` names the machines for runs on the wall clock, as `netarium run --cluster` takes
    them. `short` selects smaller sizes, which show that all works, not what the paper shows.
    """

    out: Path
    clocks: tuple[str, ...] = ("virtual",)
    models: tuple[str, ...] = MODELS
    cluster: Optional[str] = None
    short: bool = False
    words: str = ""


def data(name: str) -> Path:
    """A folder of the sources (`labs`, `data`), which an installed package contains."""
    inside = PACKAGE / name
    return inside if inside.is_dir() else PACKAGE.parent.parent / name


class Stage(Evidence):
    """Evidence of a figure, and the runs that it is made of."""

    def __init__(
        self,
        clocks: Sequence[str],
        folder: Path,
        options: Options,
        show: Callable[[int, int], None] = lambda finished, total: None,
    ) -> None:
        super().__init__()
        self.options, self._folder, self._show = options, folder, show
        self._clocks = tuple(clocks)
        self.runs: list[Run] = []
        """All runs of the figure."""
        self.beyond_limit: list[Run] = []
        """Runs that met the limit of the machine on purpose."""
        self._finished = self._total = 0
        if folder.exists():
            shutil.rmtree(folder)

    @property
    def short(self) -> bool:
        return self.options.short

    def size(self, full: T, short: T) -> T:
        """The size of the paper, or the short one."""
        return short if self.options.short else full

    def clocks(self) -> list[str]:
        """The wanted clocks that suit the figure."""
        return [clock for clock in self.options.clocks if clock in self._clocks]

    def models(self) -> list[str]:
        """The wanted models."""
        return list(self.options.models)

    def settings(self) -> list[tuple[str, str]]:
        """Each wanted clock with each wanted model."""
        return [(clock, model) for clock in self.clocks() for model in self.options.models]

    def file(self, path: str) -> Path:
        """A file of the labs: `splaynet/large.toml`."""
        return data("labs") / path

    def scratch(self, name: str) -> Path:
        """An absolute folder of the figure beside its runs."""
        folder = (self._folder / name).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def run(
        self, jobs: Sequence[Job], at_once: int = 1, together: bool = False, tries: int = TRIES
    ) -> list[Run]:
        """Runs of jobs in their order: on the virtual clock on all cores, then on the wall clock.

        Arguments:
            at_once: Runs on the wall clock at the same time, for those that load little.
            together: All runs on the wall clock at the same time, beginning when all are ready.
            tries: How often a run on the wall clock is made until it is trusted.
        """
        jobs = list(jobs)
        self._total += len(jobs)
        found: dict[int, Run] = {}
        limit = len(jobs) if together else at_once
        for clock, most in (("virtual", os.cpu_count() or 1), ("wall", limit)):
            places = [place for place, job in enumerate(jobs) if job.clock == clock]
            found.update(self._batch(jobs, places, most, together and clock == "wall"))
        for again in range(2, tries + 1):
            late = [at for at, run in found.items() if run.clock == "wall" and not run.trusted]
            self._total += len(late)
            before = {at: found[at].folder for at in late}
            for at, run in self._batch(jobs, late, limit, False).items():
                run.tries = again
                found[at] = run
                shutil.rmtree(before[at])
        runs = [found[place] for place in range(len(jobs))]
        self.runs += runs
        return runs

    def met_the_limit(self, runs: Sequence[Run]) -> None:
        """Runs that met the limit of the machine on purpose: that they are untrusted is right."""
        self.beyond_limit += runs

    def _batch(
        self, jobs: Sequence[Job], places: Sequence[int], limit: int, together: bool
    ) -> dict[int, Run]:
        def done() -> None:
            self._finished += 1
            self._show(self._finished, self._total)

        def words(job: Job) -> list[str]:
            lab = self.file(job.lab)
            return job.words(str(lab), str(self._folder), self.options.cluster)

        self._folder.mkdir(parents=True, exist_ok=True)
        runs = Jobs(done).perform([jobs[place] for place in places], words, limit, together)
        return dict(zip(places, runs))


def measure(*words: str) -> Any:
    """The JSON object that a command of the binary prints. Raises PaperError."""
    done = subprocess.run(
        [nt.binary(), *words, "--json", "--quiet"], capture_output=True, text=True
    )
    if done.returncode:
        text = done.stderr.strip() or json.loads(done.stdout)["message"]
        raise PaperError(text, done.returncode)
    return json.loads(done.stdout)


def measure_each(commands: Iterable[Sequence[str]]) -> list[Any]:
    """The objects of several commands, in their order, made on all cores. Raises PaperError."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda words: measure(*words), commands))
