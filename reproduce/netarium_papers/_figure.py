"""Papers, their figures, and how a figure is made."""

from __future__ import annotations

import dataclasses
import datetime
import importlib
import shlex
import sys
import tempfile
import time
from pathlib import Path
from typing import Callable, Optional, Sequence

import netarium as nt

from ._result import FigureResult
from ._stage import Options, PaperError, Stage

INTERNAL = 70
NAMES = ("splaynet", "cluster", "slbn", "collector", "bundler", "mctcp")


@dataclasses.dataclass(frozen=True)
class Paper:
    """A published evaluation; `modules` are those with its figures, in its order."""

    name: str
    title: str
    citation: str
    modules: tuple[str, ...]

    @property
    def figures(self) -> list[Figure]:
        found: list[Figure] = []
        for module in self.modules:
            loaded = importlib.import_module(f"netarium_papers.{self.name}.{module}")
            found += [of for of in vars(loaded).values() if isinstance(of, Figure)]
        return [of for place, of in enumerate(found) if of not in found[:place]]


def papers() -> dict[str, Paper]:
    """All papers by name."""
    return {name: importlib.import_module(f"netarium_papers.{name}").PAPER for name in NAMES}


@dataclasses.dataclass(frozen=True)
class Figure:
    """A figure of a paper, or another result that it prints.

    `takes` is about how long all its runs take. `clocks` are those that suit it; none if it runs
    no labs. A call returns the result: in a notebook its claims, plots and tables.
    """

    id: str
    title: str
    takes: str
    clocks: tuple[str, ...]
    make: Callable[[Stage], None]

    @property
    def text(self) -> list[str]:
        """The paragraphs of the file's first cell after its heading."""
        text = sys.modules[self.make.__module__].__doc__ or ""
        heading, _, rest = text.partition("\n")
        paragraphs = rest.strip().split("\n\n") if heading.startswith("# ") else []
        return [" ".join(of.split()) for of in paragraphs if of]

    def suits(self, clocks: Sequence[str]) -> bool:
        return not self.clocks or any(clock in clocks for clock in self.clocks)

    def __call__(self, *, short: bool = False, clock: str = "virtual") -> FigureResult:
        """Makes the figure, with its runs in a temporary folder."""
        with tempfile.TemporaryDirectory() as folder:
            options = Options(Path(folder), clocks=(clock,), short=short)
            return self.result(options, Path(folder) / "runs", "")

    def result(
        self,
        options: Options,
        runs: Path,
        repeat: str,
        show: Callable[[int, int], None] = lambda finished, total: None,
    ) -> FigureResult:
        """Makes the figure with runs in the folder `runs`; an error is part of the result."""
        begun, made = time.monotonic(), datetime.datetime.now(datetime.timezone.utc)
        stage = Stage(self.clocks, runs, options, show)
        stage.notes += self.text
        error: Optional[PaperError] = None
        try:
            if not self.suits(options.clocks):
                raise PaperError(f"needs the {' or '.join(self.clocks)} clock")
            self.make(stage)
        except PaperError as failed:
            error = failed
        except (KeyError, nt.NetariumError) as failed:
            # A run lacks what the figure needs.
            error = PaperError(str(failed), INTERNAL)
        took = time.monotonic() - begun
        return FigureResult.of(self, stage, error, made, took, repeat)

    def main(self) -> None:
        """The command line of a file, which makes its figures; in a notebook, shows this one."""
        if "ipykernel" in sys.modules:
            importlib.import_module("IPython.display").display(self(short=True))
            return
        from .__main__ import main

        name = Path(sys.argv[0]).resolve().parent.name
        # A file elsewhere is a paper of its own.
        own = Paper(Path(sys.argv[0]).stem, self.title, "", ())
        paper = papers()[name] if name in NAMES else own
        figures = [of for of in vars(sys.modules["__main__"]).values() if isinstance(of, Figure)]
        sys.exit(main([paper.name, *sys.argv[1:]], (paper, figures)))


def figure(
    id: str, title: str, takes: str, clocks: str = ""
) -> Callable[[Callable[[Stage], None]], Figure]:
    """Makes a figure of a function that fills a stage; `clocks` are words."""

    def decorated(make: Callable[[Stage], None]) -> Figure:
        return Figure(id, title, takes, tuple(clocks.split()), make)

    return decorated


def command(paper: str, figure_id: str, words: Sequence[str]) -> str:
    """The command that repeats a figure."""
    return shlex.join(["netarium", "reproduce", paper, figure_id, *words])
