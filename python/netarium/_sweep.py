"""Runs of all combinations of values and seeds, in parallel, with resumption."""

import concurrent.futures
import hashlib
import os
import threading
from pathlib import Path
from typing import Any, Callable, Iterable, Mapping, NamedTuple, Sequence

from . import _binary
from ._lab import Lab, overrides
from ._run import PathLike, Run, RunRow, opened, run_rows
from ._table import Table, extra

Executor = concurrent.futures.Executor
Progress = Callable[..., Iterable[Any]]
"""Called as `progress(iterable, total=number)`, like `tqdm.tqdm`; it passes the items on."""


class Task(NamedTuple):
    """One run: a lab, its swept values, what overrides the lab, and the folder of the results."""

    lab: Lab
    values: dict[str, str]
    keys: dict[str, Any]
    folder: Path


class RayExecutor(Executor):
    """Tasks on the cluster of Ray to which `ray.init` connected this process.

    `options` are those of a remote function, such as `num_cpus`; default: no limit of retries
    after the death of a worker. Raises ImportError without ray.
    """

    def __init__(self, **options: Any) -> None:
        self._ray = extra("ray", "ray")
        self._options = {"max_retries": -1, **options}

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> concurrent.futures.Future[Any]:
        remote = self._ray.remote(**self._options)(fn)
        future: concurrent.futures.Future[Any] = remote.remote(*args, **kwargs).future()
        return future


def perform(task: Task) -> RunRow:
    """Runs a task unless its folder has the result."""
    runs = [Run(path) for path in sorted(task.folder.glob("*/run.json"))]
    run = next((run for run in runs if run.record["status"] == "finished"), None)
    if run is None:
        result, text = task.lab._command("sim", "--no-report", runs=task.folder, **task.keys)
        run = Run(opened(result, False, False, text).folder)
    return run._row(task.values)


def sweep(
    lab: Lab,
    values: Mapping[str, Sequence[Any]],
    *,
    seeds: Iterable[int] = (),
    duration: str | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
    out: PathLike | None = None,
) -> Table:
    """Runs a lab on the virtual clock for all combinations of values, and each seed.

    Arguments:
        lab: The lab. Its own swept values are part of the combinations.
        values: For each field the values: `{"link.core.delay": ["1 ms", "50 ms"]}`.
        seeds: The seeds; default: that of the lab.
        duration: Overrides that of the lab.
        executor: Any executor of concurrent.futures, `client.get_executor()` of Dask, or
            `RayExecutor()`; default: a process per core that this process may use. A run is a task
            that starts one process and waits for it, so that threads suffice.
        progress: Shows the number of finished runs: `tqdm.tqdm`, or a function that is called as
            `progress(iterable, total=number)` and passes the items on.
        out: Folder for the results; default: `sweeps/NAME`. Workers on other machines need it
            under the same path.

    Returns a table with a row for each run, in the order of the combinations and seeds: the swept
    values, seed, outcome, all metrics that any run has (see `Run.metrics`), and the run folder.

    With `seeds`, flows start at random times, up to 100 ms or 1 % of the duration later, as
    with `netarium sweep --repeat`. `start_jitter` of the lab sets another limit.

    A run with a result in `out` is not repeated: the key is a hash of the resolved lab (with its
    files) and the version of the binary, and the seed. After an interruption, the same call
    performs the missing runs. Raises LabError, CapabilityError, KeyboardInterrupt, and the errors
    of the executor, such as BrokenProcessPool.
    """
    folder = Path(out) if out is not None else Path("sweeps") / lab.name
    # Workers can have another working directory.
    lab = lab.copy()
    lab.folder = Path(lab.folder).absolute()
    swept = {field: {"sweep": list(choices)} for field, choices in values.items()}
    words = overrides(duration=duration, set=swept)
    version = _binary.output("--version")
    tasks: list[Task] = []
    chosen = list(seeds)
    with lab._file() as (path, text):
        (found,) = _binary.call("check", *words, path, text=text)
        for plan in found["plans"]:
            values, settings = dict(plan["sweep"]), dict(plan["sweep"])
            if chosen and "start_jitter" not in lab.data.get("lab", {}):
                # Equal runs for all seeds would have no variance.
                jitter = min(100_000_000, int(plan["duration_s"] * 1e7))
                settings.setdefault("lab.start_jitter", f"{jitter} ns")
            words = ["--resolved", *overrides(duration=duration, set=settings), path]
            resolved = version + _binary.output("check", "--quiet", *words)
            name = hashlib.sha256(resolved.encode()).hexdigest()[:16]
            for seed in chosen or [int(plan["seed"])]:
                keys = {"duration": duration, "seed": seed, "set": settings}
                tasks.append(Task(lab, values, keys, folder.absolute() / name / str(seed)))
    rows = rows_of(tasks, executor, progress or (lambda done, total: done))
    return run_rows("sweep", rows)


def rows_of(tasks: list[Task], executor: Executor | None, progress: Progress) -> list[RunRow]:
    """Performs the tasks; the results are in their order."""
    if executor is not None:
        return results([executor.submit(perform, task) for task in tasks], progress)
    stop, threads = threading.Event(), set()

    def unless_stopped(task: Task) -> RunRow:
        threads.add(threading.get_ident())
        if stop.is_set():
            raise concurrent.futures.CancelledError
        try:
            return perform(task)
        except BaseException:
            stop.set()
            raise

    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as own:
        try:
            return results([own.submit(unless_stopped, task) for task in tasks], progress)
        except BaseException:
            # Runs without their end are not results.
            stop.set()
            _binary.interrupt(threads)
            raise


def results(futures: list[concurrent.futures.Future[RunRow]], progress: Progress) -> list[RunRow]:
    """The results; after an error or an interrupt, tasks that have not begun are cancelled."""
    try:
        for future in progress(concurrent.futures.as_completed(futures), total=len(futures)):
            # The error that stopped other tasks follows.
            if not isinstance(future.exception(), concurrent.futures.CancelledError):
                future.result()
        return [future.result() for future in futures]
    finally:
        for future in futures:
            future.cancel()
