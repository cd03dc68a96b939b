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

from ._evidence import Claim as Claim, Evidence as Evidence, Plot as Plot, Table as Table
from ._figure import Figure as Figure, Paper as Paper, figure as figure, papers as papers
from ._random import RandomStream as RandomStream
from ._run import Job as Job, Run as Run, label as label
from ._stage import (
    Options as Options,
    PaperError as PaperError,
    Stage as Stage,
    measure as measure,
    measure_each as measure_each,
)
from ._statistics import (
    Moments as Moments,
    Points as Points,
    cdf as cdf,
    moments as moments,
    quantile as quantile,
    rates as rates,
)
