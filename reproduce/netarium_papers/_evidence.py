"""What a figure shows: claims, plots, tables and notes."""

from __future__ import annotations

import csv
import io
import itertools
import math
import re
import textwrap
from pathlib import Path
from typing import Any, Iterable, NamedTuple, Optional, Sequence

Points = Sequence[tuple[float, float]]
SIZE_INCHES = (6.4, 4.0)
MAX_TITLE_COLUMNS = 62  # Of a line of a title, so that it fits the width.
# Text is stored as text, and the same content has the same identifiers.
SVG: Any = {"svg.fonttype": "none", "svg.hashsalt": "netarium"}
# Okabe and Ito's colours, distinguishable without colour vision together with the dashes.
COLOURS = "#0072B2 #D55E00 #009E73 #CC79A7 #E69F00 #56B4E9 #000000 #999933".split()
# Another number than that of the colours: all of the first 56 lines differ.
DASHES: Sequence[Any] = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
MARKERS = "osD^v<>P"
PLAIN = (5e-3, 2e4)  # Logarithmic axes within these limits have plain numbers.
LIMIT = re.compile(r"(at most|at least|below|within) ([\d.]+)(?: (\S+))?")


class Claim(NamedTuple):
    """A statement of the paper: what is compared, both values with units, and if ours agrees."""

    what: str
    paper: str
    ours: str
    holds: bool


class Table:
    """A table of texts; the first column says what the row is about.

    A head may end with the format of its numbers: `rate{:.2f} Mbit/s`.
    """

    def __init__(self, title: str, heads: Sequence[str]) -> None:
        parts = [head.partition("{") for head in heads]
        self.title, self.heads = title, [head for head, *_ in parts]
        self._formats = [brace + form for _, brace, form in parts]
        self.rows: list[list[str]] = []

    def row(self, *cells: Any) -> None:
        """Adds a row; a number that is unknown (None, NaN) is a dash."""
        pairs = zip(cells, itertools.chain(self._formats, itertools.repeat("")))
        self.rows.append([self._text(cell, form) for cell, form in pairs])

    @staticmethod
    def _text(cell: Any, form: str) -> str:
        if not form or isinstance(cell, str):
            return str(cell)
        return "–" if cell is None or math.isnan(cell) else form.format(cell)


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
        xlim: tuple[Optional[float], Optional[float]] = (None, None),
        ylim: tuple[Optional[float], Optional[float]] = (None, None),
        note: str = "",
    ) -> None:
        from matplotlib.figure import Figure

        self.title, self.note = title, note
        self.lines: list[dict[str, Any]] = []
        self.figure = Figure(figsize=SIZE_INCHES, layout="constrained")
        lines = textwrap.fill(title, MAX_TITLE_COLUMNS)
        self.ax = self.figure.add_subplot(title=lines, xlabel=x, ylabel=y)
        self._limits = (xlim, ylim)
        self.ax.grid(alpha=0.3)
        if "x" in log:
            self.ax.set_xscale("log")
        if "y" in log:
            self.ax.set_yscale("log")
        self._looks = zip(*map(itertools.cycle, (COLOURS, DASHES, MARKERS)))

    def line(self, label: str, points: Points, spread: Points = (), style: str = "line") -> Plot:
        """Draws points; `spread` is a band from low to high at each.

        `style` is `line`, `steps`, `dots`, `reference` (thin and grey) or `band` (of the spread).
        """
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
        self._write(path, path.suffix[1:])

    def svg(self) -> str:
        """The picture as an SVG element."""
        text = io.StringIO()
        self._write(text, "svg")
        return text.getvalue()[text.getvalue().index("<svg") :]

    def _write(self, file: Any, kind: str) -> None:
        from matplotlib import rc_context

        (left, right), (bottom, top) = self._limits
        self.ax.set_xlim(left=left, right=right)
        self.ax.set_ylim(bottom=bottom, top=top)
        if bottom is not None and top is None and self.ax.get_yscale() == "linear":
            # The margin of matplotlib is a share of the data's range, without the given limit.
            highest = float(self.ax.dataLim.y1)
            self.ax.set_ylim(top=max(self.ax.get_ylim()[1], highest + 0.05 * (highest - bottom)))
        for axis in (self.ax.xaxis, self.ax.yaxis):
            low, high = axis.get_view_interval()
            if axis.get_scale() == "log" and PLAIN[0] < low and high < PLAIN[1]:
                for set_formatter in (axis.set_major_formatter, axis.set_minor_formatter):
                    set_formatter(plain_logarithmic())
        if self.lines:
            self.ax.legend(fontsize="small")
        # No time in the file: the same numbers give the same file.
        fields: dict[str, Any] = {"svg": {"Date": None}}
        with rc_context(SVG):
            self.figure.savefig(file, format=kind, dpi=150, metadata=fields.get(kind))


def plain_logarithmic() -> Any:
    """A formatter of logarithmic axes with numbers as 20 instead of 2 × 10¹."""
    from matplotlib.ticker import LogFormatter

    class Plain(LogFormatter):
        def __call__(self, x: float, pos: Optional[int] = None) -> str:
            return f"{x:g}" if super().__call__(x, pos) else ""

    return Plain(labelOnlyBase=False, minor_thresholds=(1.5, 0.5))


class Evidence:
    """Claims, plots, tables and notes."""

    def __init__(self) -> None:
        self.claims: list[Claim] = []
        self.plots: list[Plot] = []
        self.tables: list[Table] = []
        self.notes: list[str] = []

    def claim(self, what: str, paper: str, ours: str, holds: bool) -> None:
        self.claims.append(Claim(what, paper, ours, bool(holds)))

    def expect(self, what: str, paper: str, value: float, limit: str, ours: str = "") -> None:
        """A claim with a limit of ours that is printed and checked, such as `at most 8 ms`.

        `paper` is empty if the paper has no value; `ours` is printed instead of the value.
        """
        word, bound, unit = LIMIT.match(limit).groups()  # type: ignore[union-attr]
        holds = value >= float(bound) if word == "at least" else value <= float(bound)
        if word == "below":
            holds = value < float(bound)
        shown = f"{value:.2f} ×" if unit == "×" else f"{value:.1f} {unit or ''}".rstrip()
        known = f"{paper} (here: {limit})" if paper else f"not in the paper (expected: {limit})"
        self.claim(what, known, ours or shown, holds)

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
