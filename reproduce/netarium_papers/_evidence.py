"""What a figure shows: claims, plots, tables and notes."""

from __future__ import annotations

import csv
import io
import itertools
import math
from pathlib import Path
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

Points = Sequence[Tuple[float, float]]
SIZE_INCHES = (6.4, 4.0)
# Okabe and Ito's colours, distinguishable without colour vision together with the dashes.
COLOURS = "#0072B2 #D55E00 #009E73 #CC79A7 #E69F00 #56B4E9 #000000 #999933".split()
DASHES: Sequence[Any] = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), "-")
MARKERS = "osD^v<>P"
STYLES = ("line", "steps", "dots", "reference", "band")


class Claim(NamedTuple):
    """A statement of the paper: what is compared, both values with units, and if ours agrees."""

    what: str
    paper: str
    ours: str
    holds: bool


class Table:
    """A table of texts; the first column says what the row is about."""

    def __init__(self, title: str, heads: Sequence[str]) -> None:
        self.title, self.heads = title, list(heads)
        self.rows: List[List[str]] = []

    def row(self, *cells: Any) -> None:
        self.rows.append([str(cell) for cell in cells])


class Plot:
    """Lines over two axes. `ax` is the matplotlib.axes.Axes, for anything beyond lines.

    `x` and `y` are the labels of the axes with units; `log` names logarithmic axes ("x", "y",
    "xy"); `xlim` and `ylim` are limits, None for those of the data.
    """

    def __init__(
        self,
        title: str,
        x: str,
        y: str,
        log: str = "",
        xlim: Tuple[Optional[float], Optional[float]] = (None, None),
        ylim: Tuple[Optional[float], Optional[float]] = (None, None),
        note: str = "",
    ) -> None:
        from matplotlib.figure import Figure

        self.title, self.note = title, note
        self.lines: List[Dict[str, Any]] = []
        self.figure = Figure(figsize=SIZE_INCHES, layout="constrained")
        self.ax = self.figure.add_subplot(title=title, xlabel=x, ylabel=y)
        self._limits = (xlim, ylim)
        self.ax.grid(alpha=0.3)
        if "x" in log:
            self.ax.set_xscale("log")
        if "y" in log:
            self.ax.set_yscale("log")
        self._looks = itertools.cycle(zip(COLOURS, DASHES, MARKERS))

    def line(
        self, label: str, points: Points, spread: Points = (), style: str = "line"
    ) -> Plot:
        """Draws points as a `style` of STYLES; `spread` is a band from low to high at each."""
        points = list(points)
        self.lines.append(
            {"label": label, "style": style, "points": points, "spread": list(spread)}
        )
        xs, ys = [x for x, _ in points], [y for _, y in points]
        if style == "reference":
            self.ax.plot(xs, ys, label=label, color="#666666", linewidth=0.8)
            return self
        colour, dash, marker = next(self._looks)
        if spread:
            low, high = zip(*spread)
            name = label if style == "band" else "_nolegend_"
            self.ax.fill_between(xs, low, high, label=name, color=colour, alpha=0.2, linewidth=0)
        if style == "dots":
            self.ax.plot(xs, ys, marker, label=label, color=colour, markersize=4)
        elif style != "band":
            steps = "steps-post" if style == "steps" else "default"
            self.ax.plot(
                xs, ys, label=label, color=colour, linestyle=dash, linewidth=1.4, drawstyle=steps
            )
        return self

    def save(self, path: Path) -> None:
        """Writes the picture; the suffix of the path is its format."""
        (left, right), (bottom, top) = self._limits
        self.ax.set_xlim(left=left, right=right)
        self.ax.set_ylim(bottom=bottom, top=top)
        if self.lines:
            self.ax.legend(fontsize="small")
        # No time in the file: the same numbers give the same file.
        fields = {"svg": {"Date": None}, "png": {}}[path.suffix[1:]]
        self.figure.savefig(path, dpi=150, metadata=fields)

    def svg(self) -> str:
        """The picture as an SVG element."""
        text = io.StringIO()
        self.figure.savefig(text, format="svg", metadata={"Date": None})
        return text.getvalue()[text.getvalue().index("<svg") :]


class Evidence:
    """Claims, plots, tables and notes."""

    def __init__(self) -> None:
        self.claims: List[Claim] = []
        self.plots: List[Plot] = []
        self.tables: List[Table] = []
        self.notes: List[str] = []

    def claim(self, what: str, paper: str, ours: str, holds: bool) -> None:
        self.claims.append(Claim(what, paper, ours, bool(holds)))

    def note(self, text: str) -> None:
        self.notes.append(text)

    def table(self, title: str, heads: Sequence[str]) -> Table:
        """Adds a table, and returns it for its rows."""
        self.tables.append(Table(title, heads))
        return self.tables[-1]

    def plot(self, title: str, x: str, y: str, **options: Any) -> Plot:
        """Adds a plot, and returns it for its lines; for the arguments see `Plot`."""
        self.plots.append(Plot(title, x, y, **options))
        return self.plots[-1]


def points_csv(plots: Iterable[Plot]) -> str:
    """The points of plots: plot, line, x, y and, where the line has a band, its ends."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    text.write("plot,line,x,y,low,high\n")

    def number(value: float) -> Any:
        return float(value) if math.isfinite(value) else None

    for plot in plots:
        for line in plot.lines:
            bands = itertools.chain(line["spread"], itertools.repeat((math.nan, math.nan)))
            for (x, y), (low, high) in zip(line["points"], bands):
                rows.writerow([plot.title, line["label"], *map(number, (x, y, low, high))])
    return text.getvalue()
