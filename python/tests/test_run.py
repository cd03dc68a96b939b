"""Runs on the virtual clock: outcomes, summaries, tables, sets, errors."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path
from unittest import mock

from kit import PYTHON, Case, nt, pair

from netarium import _binary

# `netarium export RUN --json` and `netarium export RUN links --format csv`, shortened.
LISTED = {
    "schema": "netarium.tables/1",
    "folder": "runs/pair-0a1b2c",
    "tables": [
        {
            "name": "links",
            "rows": 2,
            "columns": [
                {"name": "time_ns", "type": "int64", "nullable": False, "unit": "ns"},
                {"name": "link", "type": "text", "nullable": False, "unit": None},
                {"name": "sent_bytes", "type": "int64", "nullable": False, "unit": "B"},
                {"name": "queue_delay_max_ns", "type": "int64", "nullable": True, "unit": "ns"},
                {"name": "share", "type": "float64", "nullable": True, "unit": None},
            ],
        }
    ],
}
CSV = (
    "time_ns,link,sent_bytes,queue_delay_max_ns,share\r\n"
    '100000000,"a ""b"", c",1500,,0.5\r\n'
    "9007199254740993,core,0,12,1e-3\r\n"
)


def bulk(**keys) -> nt.Flow:
    return nt.bulk("a", "b", name="bulk", control="cubic", **keys)


class Tables(unittest.TestCase):
    def setUp(self) -> None:
        run = nt.Run.__new__(nt.Run)
        run.folder = Path(LISTED["folder"])
        for name, answer in (("call", [LISTED]), ("output", CSV)):
            patch = mock.patch.object(_binary, name, return_value=answer)
            patch.start()
            self.addCleanup(patch.stop)
        self.table = run.links
        self.columns = self.table.columns

    def test_csv_gives_typed_rows(self):
        self.assertEqual(self.columns[0], nt.Column("time_ns", "ns", int))
        first, last = self.table
        self.assertEqual(first.link, 'a "b", c')
        self.assertEqual((first.time_ns, first.queue_delay_max_ns, first.share), (10**8, None, 0.5))
        # An integer that a float cannot represent.
        self.assertEqual(last["time_ns"], 9007199254740993)
        self.assertEqual(dict(last), dict(zip([c.name for c in self.columns], last.values())))
        self.assertEqual([type(value) for value in last.values()], [int, str, int, int, float])

    def test_table_is_a_sequence(self):
        self.assertEqual(len(self.table), 2)
        self.assertEqual(self.table[-1].link, "core")
        self.assertEqual(len(self.table[1:]), 1)
        self.assertEqual(self.table.column("sent_bytes"), [1500, 0])
        self.assertRaises(KeyError, self.table.column, "none")
        with self.assertRaisesRegex(AttributeError, "no column none"):
            self.table[0].none

    def test_texts_have_at_most_80_columns(self):
        columns = [nt.Column(f"column{n}", "bit/s", str) for n in range(20)]
        table = nt.Table.of("wide", columns, [tuple("x" * 50 for _ in columns)] * 30)
        lines = repr(table).splitlines()
        self.assertLessEqual(max(map(len, lines)), 80)
        self.assertEqual(lines[-1], "20 more rows")
        self.assertTrue(lines[1].endswith("…"), lines[1])
        self.assertIn("<td>a &quot;b&quot;, c</td>", self.table._repr_html_())
        units = [nt.Column("time_ns", "ns", int), nt.Column("size_bytes", "B", int)]
        units.append(nt.Column("marked", "packets", int))
        text = repr(nt.Table.of("units", units, []))
        self.assertIn("time_ns  size_bytes  marked [packets]", text)

    def test_missing_extra_is_named(self):
        for module, call in (("polars", self.table.to_polars), ("pandas", self.table.to_pandas)):
            with mock.patch.dict(sys.modules, {module: None}):
                with self.assertRaisesRegex(ImportError, r"pip install 'netarium\[frames\]'"):
                    call()

    def test_data_frames_have_the_types(self):
        for module, call in (("polars", self.table.to_polars), ("pandas", self.table.to_pandas)):
            with self.subTest(module):
                try:
                    frame = call()
                except ImportError as error:
                    self.skipTest(str(error))
                self.assertEqual(list(frame["time_ns"]), [10**8, 9007199254740993])


class Simulated(Case):
    def test_run_has_outcome_summaries_and_metrics(self):
        run = pair().sim(flows=[bulk()], duration="1 s", seed=5)
        self.assertEqual((run.outcome, run.reasons, run.exit_code), ("passed", [], 0))
        self.assertEqual((run.name, run.seed, run.record["planned_s"]), ("pair", 5, 1.0))
        self.assertTrue(run.verdict.trusted)
        self.assertIs(run.check(), run)
        self.assertTrue(run.report.is_file())
        (flow,) = run.summary["flows"]
        goodput = run.metrics["flow.bulk.goodput.mean"]
        self.assertEqual(goodput, (flow["goodput_bit_per_s"], "bit/s"))
        self.assertAlmostEqual(run.metrics["flow.bulk.rtt.min"].value, flow["rtt"]["min_ns"] / 1e9)
        self.assertEqual(nt.Run(run.folder / "run.json").record, run.record)
        self.assertEqual([path.name for path in self.folder.iterdir()], ["runs"])

    def test_flows_of_one_run_do_not_change_the_lab(self):
        net = pair()
        net.sim(flows=[bulk()], duration="100 ms")
        self.assertNotIn("flow", net.data)

    def test_overrides(self):
        net = pair()
        net.add(bulk())
        found = {"link.core.rate": "1 Mbit/s", "link.core.queue": {"kind": "codel"}}
        run = net.sim(set=found, name="other")
        self.assertEqual(run.name, "other")
        text = run.record["topology"]["links"][0]["text"][0]
        self.assertRegex(text, "1 Mbit/s.*codel")
        with self.assertRaisesRegex(TypeError, "bare number has no unit"):
            net.sim(duration=5)

    def test_text_and_html_have_outcome_and_table(self):
        net = pair("a-name-that-is-longer-than-the-lines-of-a-terminal-with-eighty-columns-is")
        net.add(bulk())
        net.expect("flow.bulk.goodput.mean >= 9 Gbit/s")
        run = net.sim(duration="1 s")
        run.record["reasons"].append("a word in a reason that is longer than a line, " * 3)
        text, page = repr(run), run._repr_html_()
        self.assertLessEqual(max(map(len, text.splitlines())), 80)
        for part in ("expected flow.bulk.goodput.mean", "Mbit/s", "bulk"):
            self.assertIn(part, text)
        self.assertIn("failed", page)
        self.assertIn("data:image/svg+xml", page)
        self.assertNotIn("script", page.lower())

    def test_failed_expectation_fails_the_check_only(self):
        net = pair()
        net.add(bulk())
        net.expect("flow.bulk.goodput.mean >= 9 Gbit/s")
        run = net.sim(duration="100 ms")
        self.assertEqual((run.outcome, run.exit_code), ("failed", 1))
        self.assertEqual(run.expectations[0].outcome, "failed")
        with self.assertRaises(nt.FailedRunError) as raised:
            net.sim(duration="100 ms", check=True)
        self.assertEqual(raised.exception.run.reasons, run.reasons)

    def test_untrusted_run_fails_the_check(self):
        run = pair().sim(flows=[bulk()], duration="100 ms")
        run.record.update(outcome="untrusted", reasons=["packets left late"])
        with self.assertRaisesRegex(nt.UntrustedRunError, "packets left late"):
            run.check()

    def test_errors_of_the_lab(self):
        net = pair()
        with self.assertRaises(nt.LabError) as raised:
            net.sim(flows=[nt.bulk("a", "nowhere")])
        self.assertEqual(raised.exception.code, "lab::E0010")
        self.assertIsNone(raised.exception.file)
        net.program("a", "true")
        with self.assertRaisesRegex(nt.LabError, "needs the wall clock"):
            net.sim()
        net = pair(limits={"events": 10})
        with self.assertRaisesRegex(nt.LabError, "10 events"):
            net.sim(flows=[bulk()])

    def test_sweep_in_the_lab_is_refused(self):
        net = pair()
        net.add(bulk())
        with self.assertRaisesRegex(ValueError, "sweep of 2 runs"):
            net.sim(set={"link.core.delay": {"sweep": ["1 ms", "2 ms"]}}, duration="100 ms")

    def test_seeds_give_a_set_with_statistics(self):
        net = pair()
        net.add(bulk(start={"jitter": "100 ms"}))
        found = net.sim(seeds=3, duration="500 ms")
        self.assertEqual((found.outcome, len(found.runs)), ("passed", 3))
        self.assertEqual([run.seed for run in found.runs], [1, 2, 3])
        row = next(r for r in found.metrics if r.metric == "flow.bulk.goodput.mean")
        values = [run.metrics["flow.bulk.goodput.mean"].value for run in found.runs]
        self.assertEqual((row.n, row.unit), (3, "bit/s"))
        self.assertAlmostEqual(row.mean, sum(values) / 3)
        self.assertLess(row.low, row.mean)
        self.assertIs(found.check(), found)

    def test_warnings_of_the_binary_are_warnings(self):
        with self.assertWarnsRegex(UserWarning, "all seeds gave the same run") as warned:
            pair().sim(flows=[bulk()], seeds=2, duration="100 ms")
        self.assertEqual(warned.filename, __file__)

    def test_two_threads_run_two_labs(self):
        runs = {}

        def work(name: str) -> None:
            runs[name] = pair(name).sim(flows=[bulk()], duration="1 s")

        threads = [threading.Thread(target=work, args=(name,)) for name in ("one", "two")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual({name: run.name for name, run in runs.items()}, {n: n for n in runs})
        self.assertEqual(len(runs), 2)

    def test_interrupt_ends_the_run_and_keeps_results(self):
        code = (
            "import sys; sys.path[:0] = sys.argv[1:3]\n"
            "from kit import nt, pair\n"
            "net = pair(duration='700 h')\n"
            "try:\n"
            "    net.sim(flows=[nt.bulk('a', 'b')])\n"
            "except KeyboardInterrupt as error:\n"
            "    print(error.run.outcome, error.run.reasons[0])\n"
        )
        words = [sys.executable, "-c", code, str(PYTHON / "tests"), str(PYTHON)]
        child = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        try:
            while not list(Path("runs").glob("*/run.json")):
                self.assertIsNone(child.poll())
                time.sleep(0.02)
            child.send_signal(signal.SIGINT)
            text, _ = child.communicate(timeout=30)
        finally:
            child.kill()
        self.assertRegex(text, "^failed interrupted at")
        self.assertEqual(os.listdir(), ["runs"])

    def test_killed_run_failed(self):
        path = Path("long.toml")
        path.write_text(pair(duration="700 h").add(bulk()).to_toml())
        with subprocess.Popen([nt.binary(), "sim", "--quiet", path]) as child:
            while not (found := list(Path("runs").glob("*/run.json"))):
                self.assertIsNone(child.poll())
                time.sleep(0.02)
            self.assertEqual(nt.Run(found[0]).outcome, "running")
            child.kill()
        run = nt.Run(found[0])
        self.assertEqual((run.outcome, run.record["status"]), ("failed", "killed"))

    def test_tables_of_the_run(self):
        run = pair().sim(flows=[bulk()], duration="1 s")
        tables = run.tables
        self.assertLessEqual({"links", "flows"}, set(tables))
        self.assertEqual({row.flow for row in run.flows}, {"bulk"})
        received = sum(run.flows.column("received_bytes"))
        self.assertEqual(received, run.summary["flows"][0]["received_bytes"])
        self.assertIn(nt.Column("time_ns", "ns", int), run.links.columns)
        with self.assertRaisesRegex(KeyError, "no table transfers; its tables: .*links"):
            run.transfers


class Failures(unittest.TestCase):
    def test_exit_codes_have_their_exceptions(self):
        error = {"schema": "netarium.error/1", "message": "no TUN", "help": "modprobe tun"}
        kinds = {2: nt.LabError, 4: nt.CapabilityError, 5: nt.ProgramError, 70: nt.InternalError}
        for code, kind in kinds.items():
            with self.assertRaises(kind) as raised:
                _binary.fail(_binary.Result(code, [json.loads(json.dumps(error))], ""))
            self.assertIn("no TUN", str(raised.exception))
        with self.assertRaises(nt.CapabilityError) as raised:
            _binary.fail(_binary.Result(4, [error], ""))
        self.assertEqual(raised.exception.cure, "modprobe tun")
        self.assertIn("cure: modprobe tun", str(raised.exception))
        with self.assertRaises(KeyboardInterrupt):
            _binary.fail(_binary.Result(130, [], ""))


if __name__ == "__main__":
    unittest.main()
