"""Evaluations of papers as labs: each figure is run, measured and compared with the paper.

A paper is a folder of figures; a figure is a function with the decorator `figure`, which gets a
`Stage`, runs labs on it and adds claims, plots, tables and notes:

    from netarium_papers import Job, Stage, figure

    @figure("3.5", "shares of three flows", "1 min", "wall virtual")
    def shares(stage: Stage) -> None:
        (run,) = stage.run([Job("splaynet/worked-example.toml", "shares", "virtual")])
        rate = run.flow("A")["goodput_bit_per_s"] / 1e6
        stage.claim("share of A", "2 Mbit/s", f"{rate:.2f} Mbit/s", abs(rate - 2) < 0.1)

`python -m netarium_papers --list` lists all figures.
"""

from ._evidence import Claim, Evidence, Plot, Table
from ._figure import Figure, Paper, figure, papers
from ._run import Job, Run, label
from ._random import RandomStream
from ._stage import Options, PaperError, Stage, measure, measure_each
from ._statistics import Moments, Points, cdf, moments, quantile, rates

__all__ = [
    "Claim",
    "Evidence",
    "Figure",
    "Job",
    "Moments",
    "Options",
    "Paper",
    "PaperError",
    "Plot",
    "Points",
    "RandomStream",
    "Run",
    "Stage",
    "Table",
    "cdf",
    "figure",
    "label",
    "measure",
    "measure_each",
    "moments",
    "papers",
    "quantile",
    "rates",
]
