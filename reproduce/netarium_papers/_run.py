"""A run that a figure is made of, and the job that makes it."""

from __future__ import annotations

import dataclasses
from typing import Any, Mapping, Optional

import polars

import netarium as nt

from ._statistics import Points, rates

CLOCKS = ("wall", "virtual")
MODELS = ("hop", "collapsed")


@dataclasses.dataclass(frozen=True)
class Job:
    """A run to be made: a lab (its path below `labs`) on a clock.

    The name distinguishes it from other jobs of the figure. `model` replaces that of the lab.
    `settings` are values for fields, such as `{"link.core.delay": "10 ms"}`.
    """

    lab: str
    name: str
    clock: str
    model: Optional[str] = None
    settings: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def set(self, field: str, value: Any) -> Job:
        """The same job with a value for a field."""
        return dataclasses.replace(self, settings={**self.settings, field: str(value)})

    def named(self, name: str) -> Job:
        """The same job with another name."""
        return dataclasses.replace(self, name=name)

    @property
    def run_name(self) -> str:
        model = f"-{self.model}" if self.model else ""
        return f"{self.name}{model}-{self.clock}"

    def words(self, lab: str, runs: str, cluster: Optional[str]) -> list[str]:
        """The arguments of the binary."""
        words = ["run" if self.clock == "wall" else "sim", lab, "--runs", runs]
        words += ["--name", self.run_name]
        settings = {"lab.model": self.model} if self.model else {}
        for field, value in {**settings, **self.settings}.items():
            words += ["--set", f"{field}={value}"]
        if self.clock == "wall" and cluster:
            words += ["--cluster", cluster]
        return [*words, "--json", "--quiet", "--no-progress"]


def label(clock: str, model: Optional[str]) -> str:
    """Clock and model: `wall, hop`."""
    return f"{clock}, {model}" if model else clock


class Run(nt.Run):
    """A run of a job, with its samples.

    Times are s since the start of the run; rates are bit/s. `flow` and `link` return the summary
    of `run.json`.
    """

    def __init__(self, folder: str, job: Job) -> None:
        super().__init__(folder)
        self.job, self.clock, self.model = job, job.clock, job.model
        self.tries = 1
        self._frames: dict[str, Any] = {}

    @property
    def label(self) -> str:
        """Clock and model, which distinguish the runs of a lab."""
        return label(self.clock, self.model)

    @property
    def trusted(self) -> bool:
        return bool(self.verdict.trusted)

    @property
    def elapsed_s(self) -> float:
        return float(self.record["elapsed_s"])

    def flow(self, name: str) -> dict[str, Any]:
        """The summary of a flow. Raises KeyError if there is none."""
        return self._named("flows", f"flow {name}", name=name)

    def link(self, name: str, direction: str) -> dict[str, Any]:
        """The summary of a direction (`up`, `down`) of a link. Raises KeyError."""
        return self._named("links", f"link {name} {direction}", name=name, direction=direction)

    def _named(self, kind: str, what: str, **wanted: str) -> dict[str, Any]:
        for found in self.record[kind]:
            if all(found[key] == value for key, value in wanted.items()):
                return dict(found)
        raise KeyError(f"run {self.folder} has no {what}")

    def frame(self, name: str) -> Any:
        """A table of samples as a polars.DataFrame. Raises KeyError if there is none."""
        if name not in self._frames:
            path = self.folder / f"{name}.parquet"
            if not path.is_file():
                raise KeyError(f"run {self.folder} has no table {name}")
            self._frames[name] = polars.read_parquet(path)
        return self._frames[name]

    def rows(self, table: str, **wanted: str) -> Any:
        """The rows of a table whose columns have these values, as a polars.DataFrame."""
        return self.frame(table).filter(**wanted) if wanted else self.frame(table)

    def rate(self, table: str, column: str, step_s: float, **wanted: str) -> Points:
        """The rate of a column of bytes, in bit/s: middles of steps, and the rate in each.

        Steps are not shorter than the `interval` of the lab.
        """
        found = self.rows(table, **wanted)
        columns = [found[of].fill_null(0).to_list() for of in ("time_ns", "interval_ns", column)]
        samples = ((time / 1e9, length / 1e9, count * 8.0) for time, length, count in zip(*columns))
        return rates(samples, step_s, self.elapsed_s)

    def flow_rate(self, flow: str, step_s: float) -> Points:
        """Payload that the receiver of a flow got (see `rate`)."""
        self.flow(flow)
        return self.rate("flows", "received_bytes", step_s, flow=flow)

    def flow_sent_rate(self, flow: str, step_s: float) -> Points:
        """Payload that the sender of a flow sent."""
        self.flow(flow)
        return self.rate("flows", "sent_bytes", step_s, flow=flow)

    def link_rate(self, link: str, direction: str, step_s: float) -> Points:
        """Wire bytes that a link sent in a direction."""
        self.link(link, direction)
        return self.rate("links", "sent_bytes", step_s, link=link, direction=direction)

    def flow_samples(self, flow: str, column: str) -> list[tuple[float, Any]]:
        """A column of the samples of a flow: ends of intervals in s, and values that are there."""
        found = self.rows("flows", flow=flow)
        pairs = zip(found["time_ns"].to_list(), found[column].to_list())
        return [(time / 1e9, value) for time, value in pairs if value is not None]

    def round_trips(self, flow: str) -> list[float]:
        """Times from request to response of an RPC flow in s, in order.

        Only requests that were alone in their interval have their own time: with `interval` below
        the round-trip time, all.
        """
        alone = {at for at, count in self.flow_samples(flow, "responses") if count == 1}
        times = self.flow_samples(flow, "latency_max_ns")
        return [ns / 1e9 for at, ns in times if at in alone]
