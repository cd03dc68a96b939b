"""Runs of all combinations of values and seeds, in parallel, with resumption."""

from __future__ import annotations

import concurrent.futures
import hashlib
import os
import threading
from pathlib import Path
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Union

from . import _binary
from ._lab import Lab, overrides
from ._run import Metric, PathLike, Run, RunSet
from ._table import Column, Table


class Task(NamedTuple):
    """One run: a lab with swept values and a seed, and the folder of its results."""

    lab: Lab
    values: Dict[str, str]
    settings: Dict[str, str]
    seed: int
    duration: Optional[str]
    folder: Path


class Point(NamedTuple):
    """The result of a task."""

    folder: str
    outcome: str
    metrics: Dict[str, Metric]


def finished(folder: Path) -> Optional[Run]:
    """The finished run in the folder of a task, if there is one."""
    runs = [Run(path) for path in sorted(folder.glob("*/run.json"))]
    return next((run for run in runs if run.record["status"] == "finished"), None)


def perform(task: Task) -> Point:
    """Runs a task unless its folder has the result."""
    run: Union[Run, RunSet, None] = finished(task.folder)
    if run is None:
        words = ["--no-report", *overrides(task.duration, task.seed, None, task.settings)]
        run = task.lab._start("sim", words, False, (), task.folder, False)
    assert isinstance(run, Run)
    return Point(str(run.folder), run.outcome, run.metrics)


def sweep(
    lab: Lab,
    values: Mapping[str, Sequence[Any]],
    *,
    seeds: Iterable[int] = (),
    duration: Optional[str] = None,
    executor: Optional[concurrent.futures.Executor] = None,
    out: Optional[PathLike] = None,
) -> Table:
    """Runs a lab on the virtual clock for all combinations of values, and each seed.

    Arguments:
        lab: The lab. Its own swept values are part of the combinations.
        values: For each field the values: `{"link.core.delay": ["1 ms", "50 ms"]}`.
        seeds: The seeds; default: that of the lab.
        duration: Overrides that of the lab.
        executor: Any executor of concurrent.futures; default: a process per core. A run is a
            task that starts one process and waits for it, so that threads suffice.
        out: Folder for the results; default: `sweeps/NAME`.

    Returns a table with a row for each run, in the order of the combinations and seeds: the swept
    values, seed, outcome, all metrics that any run has (see `Run.metrics`), and the run folder.

    With `seeds`, flows start at random times, up to 100 ms or 1 % of the duration later, as
    with `netarium sweep --repeat`. `start_jitter` of the lab sets another limit.

    A run with a result in `out` is not repeated: the key is a hash of the resolved lab (with its
    files) and the version of the binary, and the seed. After an interruption, the same call
    performs the missing runs. Raises LabError, CapabilityError, KeyboardInterrupt.
    """
    folder = Path(out) if out is not None else Path("sweeps") / lab.name
    swept = {field: {"sweep": list(choices)} for field, choices in values.items()}
    words = overrides(duration, None, None, swept)
    version = _binary.output("--version")
    tasks: List[Task] = []
    chosen = list(seeds)
    with lab._file() as (path, text):
        (found,) = _binary.call("check", *words, path, text=text)
        for plan in found["plans"]:
            values, settings = dict(plan["sweep"]), dict(plan["sweep"])
            if chosen and "start_jitter" not in lab.data.get("lab", {}):
                # Equal runs for all seeds would have no variance.
                jitter = min(100_000_000, int(plan["duration_s"] * 1e7))
                settings.setdefault("lab.start_jitter", f"{jitter} ns")
            words = ["--resolved", *overrides(duration, None, None, settings), path]
            resolved = version + _binary.output("check", "--quiet", *words)
            name = hashlib.sha256(resolved.encode()).hexdigest()[:16]
            for seed in chosen or [int(plan["seed"])]:
                place = folder.absolute() / name / str(seed)
                tasks.append(Task(lab, values, settings, seed, duration, place))
    return table(tasks, points(tasks, executor))


def points(tasks: List[Task], executor: Optional[concurrent.futures.Executor]) -> List[Point]:
    """Performs the tasks; the results are in their order."""
    if executor is not None:
        return results([executor.submit(perform, task) for task in tasks])
    stop, threads = threading.Event(), set()

    def unless_stopped(task: Task) -> Point:
        threads.add(threading.get_ident())
        if stop.is_set():
            raise concurrent.futures.CancelledError
        try:
            return perform(task)
        except BaseException:
            stop.set()
            raise

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as own:
        try:
            return results([own.submit(unless_stopped, task) for task in tasks])
        except BaseException:
            # Runs without their end are not results.
            stop.set()
            _binary.interrupt(threads)
            raise


def results(futures: List[concurrent.futures.Future[Point]]) -> List[Point]:
    """The results; after an error or an interrupt, tasks that have not begun are cancelled."""
    try:
        return [future.result() for future in futures]
    finally:
        for future in futures:
            future.cancel()


def table(tasks: List[Task], found: List[Point]) -> Table:
    fields = list(dict.fromkeys(field for task in tasks for field in task.values))
    metrics = {name: m.unit for point in found for name, m in point.metrics.items()}
    columns = [Column(field, "", str) for field in fields]
    columns += [Column("seed", "", int), Column("outcome", "", str)]
    columns += [Column(name, metrics[name], float) for name in sorted(metrics)]
    columns += [Column("folder", "", str)]
    rows = []
    for task, point in zip(tasks, found):
        values = [task.values.get(field) for field in fields]
        measured = [point.metrics.get(name) for name in sorted(metrics)]
        numbers = [None if metric is None else float(metric.value) for metric in measured]
        rows.append((*values, task.seed, point.outcome, *numbers, point.folder))
    return Table.of("sweep", columns, rows)
