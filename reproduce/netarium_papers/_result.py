"""The result of a figure: its status, as a text, as JSON and as HTML."""

from __future__ import annotations

import dataclasses
import datetime
import html
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional, Sequence

from ._evidence import Claim, Plot, Table
from ._jobs import PaperError
from ._run import Run, label
from ._stage import Stage

if TYPE_CHECKING:
    from ._figure import Figure

MAX_ROWS = 40
# Use of the processors above which a note says so.
BUSY = 0.8
EXIT_CODES = {"holds": 0, "differs": 1, "untrusted": 3}
WORDS = {
    "holds": "holds",
    "untrusted": "holds, not trusted",
    "differs": "differs",
    "failed": "could not be made",
}


@dataclasses.dataclass
class FigureResult:
    """What came of a figure.

    `status` is `holds`, `untrusted` (all claims hold, but a run was not trusted), `differs` (a
    claim does not hold) or `failed` (with `error`).
    """

    id: str
    title: str
    short: bool
    made: datetime.datetime
    took_s: float
    repeat: str
    claims: list[Claim]
    plots: list[Plot]
    tables: list[Table]
    notes: list[str]
    runs: list[dict[str, Any]]
    status: str
    exit_code: int
    error: Optional[str] = None

    @classmethod
    def of(
        cls,
        figure: Figure,
        stage: Stage,
        error: Optional[PaperError],
        made: datetime.datetime,
        took_s: float,
        repeat: str,
    ) -> FigureResult:
        limit = stage.beyond_limit
        untrusted = [run for run in stage.runs if not run.trusted and run not in limit]
        status = "untrusted" if untrusted else "holds"
        if not all(claim.holds for claim in stage.claims):
            status = "differs"
        if error:
            status = "failed"
        return cls(
            figure.id,
            figure.title,
            stage.short,
            made,
            took_s,
            repeat,
            stage.claims,
            stage.plots,
            stage.tables,
            stage.notes + doubts(stage),
            [described(run, run in limit) for run in stage.runs],
            status,
            error.exit_code if error else EXIT_CODES[status],
            str(error) if error else None,
        )

    def to_json(self, out: Path) -> dict[str, Any]:
        """The object of `results.json`; folders of runs are relative to `out`."""
        found = {key: value for key, value in vars(self).items() if value is not None}
        found["made_unix_ms"] = int(found.pop("made").timestamp() * 1000)
        found["claims"] = [claim._asdict() for claim in self.claims]
        found["tables"] = [
            {key: getattr(table, key) for key in ("title", "heads", "rows")}
            for table in self.tables
        ]
        found["plots"] = [
            {
                "title": plot.title,
                "note": plot.note,
                "x": plot.ax.get_xlabel(),
                "y": plot.ax.get_ylabel(),
                "lines": finite(plot.lines),
            }
            for plot in self.plots
        ]
        root = out.resolve()

        def relative(run: dict[str, Any]) -> dict[str, Any]:
            path = Path(run["folder"]).resolve()
            return {**run, "folder": str(path.relative_to(root))}

        found["runs"] = [relative(run) for run in self.runs]
        return found

    def text(self) -> str:
        """Status, claims, tables and notes for a terminal."""
        lines = [f"{self.id}  {self.title}" + ("  (short)" if self.short else "")]
        if self.error:
            lines.append(f"  could not be made: {self.error}")
        for claim in self.claims:
            lines.append(f"  {'holds  ' if claim.holds else 'differs'}  {claim.what}")
            lines.append(f"           paper: {claim.paper}   here: {claim.ours}")
        for table in self.tables:
            lines += [f"  {table.title}", *text_table(table)]
        lines += [f"  note: {note}" for note in self.notes]
        if self.status == "untrusted":
            lines.append("  a run was not trusted")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        """Claims, plots, tables and notes."""
        escape = html.escape
        parts = []
        if self.short:
            parts.append("<p>Made with reduced sizes: it shows that all works, not more.</p>")
        if self.error:
            parts.append(f'<pre class="bad">could not be made: {escape(self.error)}</pre>')
        if self.claims:
            rows = []
            for what, paper, ours, holds in self.claims:
                verdict = ("good", "✓ holds") if holds else ("bad", "✗ differs")
                cells = "".join(f"<td>{escape(cell)}</td>" for cell in (what, paper, ours))
                rows.append(f'<tr>{cells}<td class="{verdict[0]}">{verdict[1]}</td></tr>')
            parts.append(html_table(["what", "paper", "here", "verdict"], rows))
        for plot in self.plots:
            note = f"<figcaption>{escape(plot.note)}</figcaption>" if plot.note else ""
            parts.append(f"<figure>{plot.svg()}{note}</figure>")
        for table in self.tables:
            rows = [
                "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
                for row in table.rows
            ]
            parts.append(f"<h3>{escape(table.title)}</h3>{html_table(table.heads, rows)}")
        if self.notes:
            parts.append("<ul>" + "".join(f"<li>{escape(n)}</li>" for n in self.notes) + "</ul>")
        return "".join(parts)


def finite(lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Lines for JSON, which has no NaN."""

    def pairs(points: Sequence[Any]) -> list[list[Optional[float]]]:
        return [[v if math.isfinite(v) else None for v in pair] for pair in points]

    keys = ("points", "spread")
    return [{**of, **{key: pairs(of[key]) for key in keys}} for of in lines]


def html_table(heads: Sequence[str], rows: Sequence[str]) -> str:
    cells = "".join(f"<th>{html.escape(head)}</th>" for head in heads)
    body = "".join(rows)
    return f'<div class="scroll"><table><tr>{cells}</tr>{body}</table></div>'


def text_table(table: Table) -> list[str]:
    """The first column is left-aligned, the others, which are numbers, right-aligned."""
    rows = [table.heads, *table.rows[:MAX_ROWS]]
    widths = [max(len(row[at]) for row in rows if at < len(row)) for at in range(len(table.heads))]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]
        lines.append("    " + "  ".join(cells).rstrip())
    if len(table.rows) > MAX_ROWS:
        lines.append(f"    {len(table.rows) - MAX_ROWS} more are in results.json")
    return lines


def unmet(run: Run) -> list[str]:
    return [found.text for found in run.expectations if found.outcome != "passed"]


def doubts(stage: Stage) -> list[str]:
    """What speaks against the runs of a figure."""
    notes, busiest = [], 0.0
    for run in stage.runs:
        which = f"{run.job.name} ({label(run.clock, run.model)})"
        if run not in stage.beyond_limit:
            busiest = max(busiest, (run.record.get("load") or {}).get("busy", 0.0))
            if not run.trusted:
                notes.append(f"Run {which} was not trusted: {'; '.join(run.verdict.reasons)}.")
        if run.trusted and run.tries > 1:
            notes.append(f"Run {which} was trusted on attempt {run.tries}.")
        for text in unmet(run):
            notes.append(f"Run {which}: the lab expects `{text}`, which did not hold.")
    if busiest > BUSY:
        notes.append(
            f"The machine's processors were up to {busiest * 100:.0f} % busy during runs on the wall "
            "clock. Other work delays kernels and programs: their measured times are longer."
        )
    return notes


def described(run: Run, is_beyond_limit: bool) -> dict[str, Any]:
    """The object of a run in `results.json`."""
    return {
        "name": run.job.name,
        "clock": run.clock,
        **({"model": run.model} if run.model else {}),
        "folder": str(run.folder),
        "trusted": run.trusted,
        "tries": run.tries,
        "beyond_limit": is_beyond_limit,
        "reasons": [] if run.trusted else run.verdict.reasons,
        "unmet": unmet(run),
        "repeat": run.record["repeat"],
    }
