"""Sweeps: combinations, resumption, executors."""

import concurrent.futures
import contextlib
import importlib.util
import json
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

from kit import PYTHON, ROOT, Case, nt, pair

VALUES = {"link.core.delay": ["1 ms", "50 ms"], "link.core.queue": ["droptail", "codel"]}


def lab() -> nt.Lab:
    net = pair()
    net.flow("a", "b", name="bulk", control="cubic")
    return net


def rows(table: nt.Table) -> list:
    return [{k: v for k, v in row.items() if k != "folder"} for row in table]


def installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def parquet(table: nt.Table) -> list:
    return [(Path(row.folder) / "links.parquet").read_bytes() for row in table]


class Sweep(Case):
    def test_table_has_a_row_for_each_combination_and_seed(self):
        found = nt.sweep(lab(), VALUES, seeds=range(2), duration="500 ms")
        keys = [(row["link.core.delay"], row["link.core.queue"], row.seed) for row in found]
        expected = [
            (d, q, s) for d in ("1 ms", "50 ms") for q in ("droptail", "codel") for s in (0, 1)
        ]
        self.assertEqual(keys, expected)
        run = nt.Run(found[5].folder)
        self.assertEqual(run.seed, 1)
        metric = "flow.bulk.rtt.min"
        self.assertEqual(found[5][metric], run.metrics[metric].value)
        self.assertIn(nt.Column(metric, "s", float), found.columns)
        self.assertTrue(all(row[metric] > 0.1 for row in found[4:]))
        # Flows start at random times, so that seeds differ.
        self.assertNotEqual(found[0]["flow.bulk.goodput.mean"], found[1]["flow.bulk.goodput.mean"])
        self.assertEqual([c.name for c in found.columns][:4], [*VALUES, "seed", "outcome"])

    def test_same_call_resumes(self):
        first = nt.sweep(lab(), VALUES, seeds=[3], duration="300 ms", out="out")
        lost = Path(first[1].folder)
        (lost / "run.json").unlink()
        marked = Path(first[0].folder) / "run.json"
        marked.write_text(json.dumps({**json.loads(marked.read_text()), "outcome": "marked"}))
        again = nt.sweep(lab(), VALUES, seeds=[3, 4], duration="300 ms", out="out")
        self.assertEqual(again[0].outcome, "marked")
        self.assertNotEqual(again[2].folder, first[1].folder)
        self.assertEqual(rows(again)[2], rows(first)[1])
        self.assertEqual(len(list(Path("out").glob("*/*"))), 8)
        net = lab()
        net.data["link"][0]["loss"] = "1 %"
        other = nt.sweep(net, VALUES, seeds=[3], duration="300 ms", out="out")
        self.assertFalse(set(other.column("folder")) & set(again.column("folder")))

    def test_rows_do_not_depend_on_the_executor(self):
        tables = [rows(nt.sweep(lab(), VALUES, duration="300 ms", out="threads"))]
        with concurrent.futures.ProcessPoolExecutor(2) as executor:
            found = nt.sweep(lab(), VALUES, duration="300 ms", out="processes", executor=executor)
            tables.append(rows(found))
        self.assertEqual(tables[0], tables[1])
        self.assertEqual([row["seed"] for row in tables[0]], [1] * 4)

    def killed_worker_changes_nothing(self, executor, pids) -> None:
        """Compares a sweep, of which a worker is killed after the first result, with a sweep by
        threads."""
        keys = {"seeds": range(6), "duration": "20 s"}
        first = set(pids())

        def kill_worker(done, total):
            self.assertEqual(total, 12)
            for number, item in enumerate(done):
                if number == 0:
                    os.kill(min(first & set(pids())), signal.SIGKILL)
                yield item

        values = {"link.core.delay": VALUES["link.core.delay"]}
        whole = nt.sweep(lab(), values, **keys, out="threads")
        keys.update(executor=executor, progress=kill_worker, out="killed")
        found = nt.sweep(lab(), values, **keys)
        self.assertEqual(rows(found), rows(whole))
        self.assertEqual(parquet(found), parquet(whole))
        self.assertNotEqual(set(pids()), first)

    @unittest.skipUnless(installed("distributed"), "distributed is not installed")
    def test_dask_replaces_a_killed_worker(self):
        from distributed import Client, LocalCluster

        keys = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
        with LocalCluster(**keys, silence_logs=50) as cluster, Client(cluster) as client:
            executor = client.get_executor()
            self.killed_worker_changes_nothing(
                executor, lambda: [worker.pid for worker in cluster.workers.values()]
            )

    @unittest.skipUnless(installed("ray"), "ray is not installed")
    def test_ray_repeats_the_task_of_a_killed_worker(self):
        import ray

        keys = {"num_cpus": 2, "include_dashboard": False, "logging_level": 40}
        ray.init(**keys, runtime_env={"env_vars": {"PYTHONPATH": str(PYTHON)}})
        self.addCleanup(ray.shutdown)
        # Starts both workers.
        pause = ray.remote(lambda: time.sleep(1))
        ray.get([pause.remote(), pause.remote()])

        def pids() -> list:
            lines = {path: path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline")}
            workers = (b"ray::IDLE", b"ray::perform")
            return [int(path.parent.name) for path in lines if lines[path].startswith(workers)]

        self.killed_worker_changes_nothing(nt.RayExecutor(num_cpus=1), pids)

    def test_same_call_resumes_after_a_worker_was_killed(self):
        keys = {"seeds": range(4), "duration": "5 s", "out": "out"}
        seen = []

        def kill_worker(done, total):
            for item in done:
                if not seen:
                    for child in multiprocessing.active_children():
                        child.kill()
                seen.append(item)
                yield item

        with self.assertRaises(concurrent.futures.process.BrokenProcessPool):
            with concurrent.futures.ProcessPoolExecutor(2) as executor:
                nt.sweep(lab(), VALUES, **keys, executor=executor, progress=kill_worker)
        states = [nt.Run(path) for path in Path("out").glob("*/*/*/run.json")]
        before = {run.folder.absolute() for run in states if run.record["status"] == "finished"}
        self.assertTrue(0 < len(before) < 16)
        found = nt.sweep(lab(), VALUES, **keys)
        self.assertLessEqual(before, set(map(Path, found.column("folder"))))
        whole = nt.sweep(lab(), VALUES, **{**keys, "out": "whole"})
        self.assertEqual((rows(found), parquet(found)), (rows(whole), parquet(whole)))

    def test_swept_values_of_the_lab_are_combined(self):
        net = lab()
        net.data["link"][0]["rate"] = {"sweep": ["1 Mbit/s", "2 Mbit/s"]}
        found = nt.sweep(net, {"link.core.delay": ["1 ms"]}, duration="100 ms")
        self.assertEqual(found.column("link.core.rate"), ["1 Mbit/s", "2 Mbit/s"])

    def test_wrong_value_is_an_error_before_any_run(self):
        with self.assertRaises(nt.LabError) as raised:
            nt.sweep(lab(), {"link.core.delay": ["1 ms", "1 Mbit/s"]}, out="out")
        self.assertEqual(raised.exception.code, "lab::E0005")
        self.assertEqual(list(self.folder.iterdir()), [])

    def sweeping(self) -> subprocess.Popen:
        """A process with a sweep, whose first runs have begun and take long."""
        code = (
            "import sys; sys.path[:0] = sys.argv[1:3]\n"
            "import netarium as nt\n"
            "from test_sweep import lab\n"
            "nt.sweep(lab(), {}, seeds=range(20), duration='700 h', out='out')\n"
        )
        words = [sys.executable, "-c", code, str(PYTHON / "tests"), str(PYTHON)]
        child = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
        self.addCleanup(child.communicate)
        self.addCleanup(child.kill)
        while not list(Path("out").glob("*/*/*/run.json")):
            self.assertIsNone(child.poll())
            time.sleep(0.02)
        return child

    def processes(self) -> list:
        """The numbers of the processes of runs."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if str(self.folder).encode() in path.read_bytes():
                    found.append(int(path.parent.name))
        return found

    def test_runs_of_a_killed_process_end_and_leave_no_file(self):
        child = self.sweeping()
        self.assertTrue(self.processes() and list(Path().glob(".netarium-*")))
        child.kill()
        end = time.monotonic() + 30
        while (rest := self.processes()) and time.monotonic() < end:
            time.sleep(0.02)
        for process in rest:
            os.kill(process, signal.SIGKILL)
        self.assertEqual(rest, [])
        self.assertEqual(list(Path().glob(".netarium-*")), [])
        states = [nt.Run(path).record["status"] for path in Path("out").glob("*/*/*/run.json")]
        self.assertEqual(set(states), {"interrupted"})

    def test_interrupt_ends_running_and_waiting_runs(self):
        child = self.sweeping()
        child.send_signal(signal.SIGINT)
        _, text = child.communicate(timeout=30)
        self.assertIn("KeyboardInterrupt", text)
        states = [nt.Run(path).record["status"] for path in Path("out").glob("*/*/*/run.json")]
        self.assertLess(len(states), 20)
        self.assertEqual(set(states), {"interrupted"})


class Book(Case):
    """The files of docs/src/guides/sweeps.md."""

    def setUp(self) -> None:
        super().setUp()
        text = (ROOT / "docs/src/guides/sweeps.md").read_text(encoding="utf-8")
        for name, content in re.findall(r"<!-- book: file (\S+) -->\n```\w+\n(.*?)```", text, re.S):
            Path(name).write_text(content.replace("range(100)", "range(4)"))

    def test_shards_fill_the_folder_of_the_whole_sweep(self):
        environment = {**os.environ, "PYTHONPATH": str(PYTHON)}
        counts = []
        for shard in ("0 2", "1 2", "0 1"):
            words = [sys.executable, "-B", "shard.py", *shard.split()]
            subprocess.run(words, env=environment, check=True)
            counts.append(len(list(Path("results").glob("*/*/*/run.json"))))
        self.assertEqual(counts, [8, 16, 16])

    def test_manifest_is_valid(self):
        cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
        folders = [str(cache / "netarium/kubernetes-validate/bin"), os.environ["PATH"]]
        program = shutil.which("kubernetes-validate", path=os.pathsep.join(folders))
        if program is None:
            self.skipTest("kubernetes_validate is not installed")
        done = subprocess.run([program, "--strict", "sweep.yaml"], capture_output=True, text=True)
        self.assertIn("passed for resource job/netarium-sweep", done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
