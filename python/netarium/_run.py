"""Finished runs: outcome, summaries and tables of a run folder."""

from __future__ import annotations

import base64
import contextlib
import csv
import functools
import html
import io
import json
import os
import re
import textwrap
import warnings
from pathlib import Path
from typing import Any, Mapping, NamedTuple, Sequence

from . import _binary, _plot
from ._errors import FailedRunError, NetariumError, ProgramError, RunInterrupted, UntrustedRunError
from ._table import WIDTH, Column, Table, html_table, plain_columns, shortened, text_table

PathLike = str | os.PathLike[str]
UNTRUSTED, PROGRAM = 3, 5
# Exit codes of a run that has results; other codes are errors.
WITH_RESULTS = (0, 1, UNTRUSTED, PROGRAM, _binary.INTERRUPTED)
# The types that `netarium export` names.
TYPES = {"int64": int, "float64": float, "text": str}
SUMMARIES = ("flows", "links", "programs", "bundles", "control", "simulation", "lateness", "load")


class Metric(NamedTuple):
    """A metric over the whole run: its value in the unit `unit`."""

    value: float
    unit: str


class Verdict(NamedTuple):
    """Whether the numbers of a run can be trusted, and the reasons."""

    trusted: bool
    machine_fit: bool
    reasons: list[str]


class ProgramResult(NamedTuple):
    """A program of a run: its end (such as `{"exit": 1}` or `"stopped"`) and its output."""

    name: str
    node: str
    command: str
    end: Any
    as_expected: bool
    folder: Path

    @property
    def stdout(self) -> str:
        """Its standard output, up to the program's `output` limit."""
        return self._read("stdout")

    @property
    def stderr(self) -> str:
        """Its standard error."""
        return self._read("stderr")

    @property
    def exit_code(self) -> int | None:
        """Its exit status; None if it was stopped, killed or not started."""
        return self.end.get("exit") if isinstance(self.end, dict) else None

    def _read(self, name: str) -> str:
        path = self.folder / name
        return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def cell(of: type, text: str) -> Any:
    """A value of a CSV file; an empty number is None."""
    return None if text == "" and of is not str else of(text)


def samples(name: str, about: str) -> functools.cached_property[Table]:
    """The attribute of a run for one of its tables of samples."""
    found: functools.cached_property[Table] = functools.cached_property(lambda run: run.table(name))
    found.__doc__ = about
    return found


class Run:
    """A run, opened by its folder (or by its `run.json`). Raises OSError if there is none."""

    def __init__(self, folder: PathLike) -> None:
        path = Path(folder)
        self.folder: Path = path.parent if path.name == "run.json" else path
        """The run folder."""
        self.record: dict[str, Any] = json.loads((self.folder / "run.json").read_bytes())
        """The content of `run.json`."""
        if self.record["status"] == "running":
            # The binary completes the record of a killed run.
            with contextlib.suppress(NetariumError):
                _binary.call("export", str(self.folder))
                self.record = json.loads((self.folder / "run.json").read_bytes())
        self.name = str(self.record["name"])
        """The name of the lab."""
        self.seed = int(self.record["seed"])
        """The seed of all random streams."""
        self.exit_code: int | None = self.record["exit_code"]
        """The exit code of the run; None while it is running."""
        self.report = self.folder / "report.html"
        """The path of `report.html`."""
        self.plot = _plot.Plot(self)
        """Plots with matplotlib, for example `run.plot.goodput(by="flow")`."""

    @property
    def outcome(self) -> str:
        """`passed`, `untrusted` or `failed`; `running` if `run.json` has no outcome yet."""
        return str(self.record.get("outcome", "running"))

    @property
    def reasons(self) -> list[str]:
        """Reasons for another outcome than `passed`, the most severe first."""
        return list(self.record.get("reasons", []))

    @property
    def verdict(self) -> Verdict:
        """Whether the numbers can be trusted, for a failed run too. Not without a verdict."""
        found = self.record["verdict"]
        if not found:
            return Verdict(False, False, ["the run has no verdict yet"])
        return Verdict(*(found[key] for key in Verdict._fields))

    @property
    def summary(self) -> dict[str, Any]:
        """The summaries of `run.json` by kind: `flows`, `links`, `programs`, …

        Names of values end with their unit: `goodput_bit_per_s`, `mean_ns`, `sent_bytes`.
        """
        return {key: self.record[key] for key in SUMMARIES if self.record.get(key)}

    @property
    def programs(self) -> dict[str, ProgramResult]:
        """The programs by name."""
        keys, folder = ProgramResult._fields[:-1], self.folder / "programs"
        found = [{key: program[key] for key in keys} for program in self.record["programs"]]
        return {p["name"]: ProgramResult(**p, folder=folder / p["name"]) for p in found}

    @property
    def expectations(self) -> Table:
        """The expectations: text, outcome, measured value."""
        columns = plain_columns(text=str, outcome=str, measured=str)
        return Table.of_objects("expectations", columns, self.record["expectations"])

    @property
    def events(self) -> Table:
        """The events that took place, with marks and changes of links: time in s, text."""
        columns = [Column("at_s", "s", float), *plain_columns(text=str)]
        return Table.of_objects("events", columns, self.record["events"])

    @functools.cached_property
    def metrics(self) -> dict[str, Metric]:
        """Metrics over the whole run, with the names of expectations (`flow.NAME.goodput.mean`).

        Units are bit/s, s, B, share, count and boolean.
        """
        words = ["diff", "--quiet", "--save", "/dev/stdout", "--metric", "*", str(self.folder)]
        found = json.loads(_binary.output(*words))["metrics"]
        return {name: Metric(value["mean"], value["unit"]) for name, value in found.items()}

    @functools.cached_property
    def _columns(self) -> dict[str, list[Column]]:
        (found,) = _binary.call("export", str(self.folder))
        tables = {table["name"]: table["columns"] for table in found["tables"]}
        return {
            name: [Column(c["name"], c["unit"] or "", TYPES.get(c["type"], str)) for c in columns]
            for name, columns in tables.items()
        }

    @property
    def tables(self) -> list[str]:
        """The names of the tables of samples that the run has."""
        return list(self._columns)

    def table(self, name: str) -> Table:
        """A table of samples. Raises KeyError if the run has no such table."""
        if name not in self._columns:
            raise KeyError(f"run has no table {name}; its tables: {', '.join(self.tables)}")
        types = [column.type for column in self._columns[name]]

        def load() -> list[tuple[Any, ...]]:
            text = _binary.output("export", str(self.folder), name, "--format", "csv")
            lines = csv.reader(io.StringIO(text, newline=""))
            next(lines)
            return [tuple(map(cell, types, line)) for line in lines]

        return Table(name, self._columns[name], load, self.folder / f"{name}.parquet")

    links = samples(
        "links",
        "Samples of links, a row for each interval, link and direction.\n\n"
        "Columns: times in ns, packets, wire bytes, queue lengths, drops by reason.",
    )
    flows = samples(
        "flows",
        "Samples of flows, a row for each interval and flow: payload bytes, times in ns.",
    )
    transfers = samples(
        "transfers", "Transfers of flows that make many: start, size, completion, slowdown."
    )
    control = samples("control", "Samples of explicit rate control.")
    sessions = samples("sessions", "Rate-controlled sessions.")
    subflows = samples("subflows", "Samples of subflows of multipath flows.")
    tcp = samples(
        "tcp",
        "Variables of TCP senders, a row for each change, with `tcp_events` on the virtual clock.\n\n"
        "Columns: times in ns, windows and payload in bytes.",
    )
    bundles = samples("bundles", "Samples of bundles.")
    shares = samples("shares", 'Samples of shares with `model = "collapsed"`.')

    def check(self) -> Run:
        """Returns the run if it passed.

        Raises UntrustedRunError if it is untrusted, ProgramError if a program failed, otherwise
        FailedRunError.
        """
        if self.outcome == "passed":
            return self
        if self.outcome == "untrusted":
            raise UntrustedRunError(self)
        if self.exit_code != PROGRAM:
            raise FailedRunError(self)
        failed = (found for found in self.programs.values() if not found.as_expected)
        text, code = next(((first.stderr, first.exit_code) for first in failed), ("", None))
        raise ProgramError("; ".join(self.reasons), code, text, self)

    def _row(self, values: Mapping[str, str]) -> RunRow:
        return values, self.seed, self.outcome, self.metrics, str(self.folder)

    def _heading(self) -> str:
        clock, seed, end = self.record["clock"], self.record["seed"], self.record["elapsed_s"]
        return f"{self.folder.name}: {self.outcome} ({clock} clock, seed {seed}, {end:g} s)"

    def _overview(self) -> tuple[list[str], list[list[str]]]:
        """Heads and rows of the table of flows, or of links without flows."""
        is_flows = bool(self.record["flows"])
        kind, rate = ("flow", "goodput") if is_flows else ("link", "throughput")
        rows = []
        for found in self.record[f"{kind}s"]:
            if is_flows:
                delay = found["latency"] or found["delay"] or found["rtt"] or {}
                rest = [scaled(delay.get(key), "s", 1e-9) for key in ("p50_ns", "p99_ns")]
            else:
                rest = [str(sum(found["drops"].values()))]
            value = scaled(found[f"{rate}_bit_per_s"], "bit/s")
            rows.append([found["name"], f"{found['from']} → {found['to']}", value, *rest])
        ends, others = ("ends", ["p50", "p99"]) if is_flows else ("direction", ["drops"])
        return [kind, ends, rate, *others], rows

    def __repr__(self) -> str:
        heads, rows = self._overview()
        parts = [shortened(self._heading())]
        for reason in self.reasons:
            parts += textwrap.wrap(reason, WIDTH, initial_indent="  ", subsequent_indent="    ")
        if rows:
            parts += ["", text_table(heads, rows[:MAX_ROWS])]
        if len(rows) > MAX_ROWS:
            parts.append(f"{len(rows) - MAX_ROWS} more")
        return "\n".join(parts)

    def _repr_html_(self) -> str:
        """Outcome, picture of the network and table, without JavaScript."""
        heads, rows = self._overview()
        reasons = "".join(f"<li>{html.escape(reason)}</li>" for reason in self.reasons)
        parts = [f"<p><strong>{html.escape(self._heading())}</strong></p>"]
        parts += [f"<ul>{reasons}</ul>"] if reasons else []
        parts += [self._picture(), html_table(heads, rows[:MAX_ROWS])]
        return "<div>" + "".join(parts) + "</div>"

    def _picture(self) -> str:
        """The picture of the network in the report as an image; empty without one."""
        page = self.report.read_text(encoding="utf-8") if self.report.is_file() else ""
        style = "".join(re.findall(r"<style>(.*?)</style>", page, re.DOTALL))
        found = re.search(r'<figure class="topology"><svg class="wide"(.*?)</svg>', page, re.DOTALL)
        if not found:
            return ""
        # An image of its own, so that its style does not affect the notebook.
        head = '<svg xmlns="http://www.w3.org/2000/svg"'
        image = f"{head}{found[1].replace('>', f'><style>{style}</style>', 1)}</svg>"
        data = base64.b64encode(image.encode()).decode()
        source = f"data:image/svg+xml;base64,{data}"
        return f'<img alt="network of the lab" style="width:100%" src="{source}">'


MAX_ROWS = 20
PREFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))


def scaled(value: float | None, unit: str, factor: float = 1.0) -> str:
    """A number with its unit, for people: `9.29 Mbit/s`."""
    if value is None:
        return "–"
    value *= factor
    if value == 0:
        return f"0 {unit}"
    size, prefix = next((p for p in PREFIXES if abs(value) >= p[0]), PREFIXES[-1])
    return f"{value / size:.3g} {prefix}{unit}"


RunRow = tuple[Mapping[str, str], int, str, dict[str, Metric], str]


def run_rows(name: str, runs: Sequence[RunRow]) -> Table:
    """A table with a row for each run: swept values, `seed`, `outcome`, metrics, `folder`."""
    fields = dict.fromkeys((field for run in runs for field in run[0]), str)
    metrics = {metric: m.unit for run in runs for metric, m in run[3].items()}
    columns = plain_columns(**fields, seed=int, outcome=str)
    columns += [Column(metric, metrics[metric], float) for metric in sorted(metrics)]
    columns += plain_columns(folder=str)
    rows = []
    for values, seed, outcome, measured, folder in runs:
        numbers = {metric: float(found.value) for metric, found in measured.items()}
        own = {"seed": seed, "outcome": outcome, "folder": folder}
        rows.append({**values, **own, **numbers})
    return Table.of_objects(name, columns, rows)


class RunSet:
    """A set of runs: `sim(seeds=…)` or `run(repeat=…)`, opened by its folder."""

    def __init__(self, folder: PathLike) -> None:
        self.folder: Path = Path(folder)
        """The folder of the set."""
        self.record: dict[str, Any] = json.loads((self.folder / "summary.json").read_bytes())
        """The content of `summary.json`."""
        self.outcome = str(self.record["outcome"])
        """`failed` if a run failed, else `untrusted` if a run is untrusted, else `passed`."""

    @property
    def reasons(self) -> list[str]:
        """The reasons of all runs."""
        return [reason for run in self.runs for reason in run.reasons]

    @functools.cached_property
    def runs(self) -> list[Run]:
        """The runs, in the order of their seeds."""
        return [Run(self.folder / run["folder"]) for run in self.record["runs"]]

    @property
    def metrics(self) -> Table:
        """For each metric: unit, number of runs, mean, standard deviation, 95 % interval."""
        columns = [*plain_columns(metric=str, unit=str), Column("n", "runs", int)]
        columns += plain_columns(mean=float, sd=float, low=float, high=float)
        rows = [{"metric": name, **found} for name, found in self.record["metrics"].items()]
        return Table.of_objects("metrics", columns, rows)

    @functools.cached_property
    def table(self) -> Table:
        """A row for each run, with the columns of `netarium.sweep`."""
        return run_rows("runs", [run._row({}) for run in self.runs])

    def check(self) -> RunSet:
        """Returns the set if all runs passed; raises the error of the first other run."""
        for run in self.runs:
            run.check()
        return self

    def __repr__(self) -> str:
        return f"{self.folder.name}: {self.outcome} ({len(self.record['seeds'])} runs)"


def opened(result: _binary.Result, many: bool, check: bool, text: str | None) -> Run | RunSet:
    """The run, or the set of runs, of a command that has ended. Raises its error."""
    for text_of_warning in re.findall("^warning: (.*)", result.stderr, re.MULTILINE):
        warnings.warn(text_of_warning, stacklevel=4)
    folders = [found["folder"] for found in result.objects if "folder" in found]
    if not folders or result.exit_code not in WITH_RESULTS:
        if result.exit_code == _binary.INTERRUPTED:
            raise RunInterrupted(None)
        _binary.fail(result, text)
    if len(folders) > 1:
        raise ValueError(
            f"the lab is a sweep of {len(folders)} runs, which are in {Path(folders[0]).parent}; "
            "use netarium.sweep for their table"
        )
    found = RunSet(folders[0]) if many else Run(folders[0])
    if result.exit_code == _binary.INTERRUPTED:
        raise RunInterrupted(found)
    return found.check() if check else found
