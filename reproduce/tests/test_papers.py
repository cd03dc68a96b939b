"""The framework of the figures: statistics, results, runs, the command."""

import datetime
import itertools
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

REPRODUCE = Path(__file__).resolve().parent.parent
PATHS = [str(REPRODUCE), str(REPRODUCE.parent / "python")]
sys.path[:0] = PATHS

try:
    import netarium as nt
    import netarium_papers as papers
    from netarium_papers import _figure, _result, _results
except ImportError as error:
    raise unittest.SkipTest(f"{error.name} is not installed") from None


class Folder(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def program(self, text: str) -> None:
        """A shell script in place of the binary."""
        path = self.folder / "program"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        self.addCleanup(os.environ.update, {"NETARIUM_BINARY": nt.binary()})
        os.environ["NETARIUM_BINARY"] = str(path)

    def stage(self) -> papers.Stage:
        options = papers.Options(self.folder / "out", clocks=("virtual",))
        return papers.Stage(("virtual",), self.folder / "out/runs/1", options)


class Programs(unittest.TestCase):
    def test_programs_of_labs_pass_their_own_tests(self):
        for name in ("chord", "multicast", "butterfly"):
            with self.subTest(name):
                path = REPRODUCE.parent / "labs/splaynet/apps" / f"{name}.py"
                words = [sys.executable, "-B", path, "--self-test"]
                done = subprocess.run(words, capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stdout), (0, "ok\n"), done.stderr)


class Statistics(unittest.TestCase):
    def test_distributions_rise_to_100_percent(self):
        found = papers.cdf([3.0, 1.0, 2.0, math.nan, 2.0])
        self.assertEqual(found, [(1.0, 25.0), (2.0, 50.0), (2.0, 75.0), (3.0, 100.0)])
        self.assertEqual(papers.cdf([]), [])

    def test_quantiles_are_values_of_the_sample(self):
        values = [float(n) for n in range(100, 0, -1)]
        found = [papers.quantile(values, share) for share in (0.0, 0.5, 0.99, 1.0)]
        self.assertEqual(found, [1.0, 50.0, 99.0, 100.0])
        self.assertTrue(math.isnan(papers.quantile([], 0.5)))

    def test_moments_divide_by_n(self):
        found = papers.moments([2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0])
        self.assertEqual(found, (8, 5.0, 2.0, 2.0, 9.0))
        self.assertEqual(papers.moments([]), (0, 0.0, 0.0, 0.0, 0.0))

    def test_late_samples_do_not_move_counts_to_another_step(self):
        regular = [(0.5, 0.5, 5.0), (1.0, 0.5, 5.0), (2.0, 1.0, 30.0)]
        self.assertEqual(papers.rates(regular, 1.0, 2.0), [(0.5, 10.0), (1.5, 30.0)])
        late = [(1.0, 1.0, 10.0), (2.1, 1.1, 11.0), (3.0, 0.9, 9.0)]
        for _, rate in papers.rates(late, 1.0, 3.0):
            self.assertAlmostEqual(rate, 10.0)

    def test_steps_without_samples_are_zero(self):
        found = papers.rates([(3.0, 1.0, 8.0)], 1.0, 3.5)
        self.assertEqual(found, [(0.5, 0.0), (1.5, 0.0), (2.5, 8.0)])


class Shown(Folder):
    def test_limit_of_a_claim_is_printed_and_checked_and_fails_for_nan(self):
        found = self.stage()
        for value in (0.9, 0.97, math.nan):
            found.expect("goodput", "the same", value, "at least 0.97 ×")
        for value in (8.0, 8.1, math.nan):
            found.expect("queue", "", value, "at most 8 ms in the mean")
        for value in (1.9, 2.0):
            found.expect("ratio", "", value, "below 2", "a half")
        holds = [claim.holds for claim in found.claims]
        self.assertEqual(holds, [False, True, False, True, False, False, True, False])
        self.assertEqual(found.claims[0].paper, "the same (here: at least 0.97 ×)")
        self.assertEqual([found.claims[at].ours for at in (0, 3, 6)], ["0.90 ×", "8.0 ms", "a half"])
        paper = "not in the paper (expected: at most 8 ms in the mean)"
        self.assertEqual(found.claims[3].paper, paper)

    def test_columns_of_a_table_have_formats(self):
        table = self.stage().table("Rates", ["flow", "rate{:.1f} Mbit/s", "resent"])
        table.row("A", 1.25, 3)
        table.row("B", math.nan, 0)
        table.row("C", "none", None)
        self.assertEqual(table.heads, ["flow", "rate", "resent"])
        rows = [["A", "1.2 Mbit/s", "3"], ["B", "–", "0"], ["C", "none", "None"]]
        self.assertEqual(table.rows, rows)

    def test_long_titles_are_wrapped_and_the_same_numbers_give_the_same_file(self):
        files = []
        for _ in range(2):
            plot = papers.Plot("goodput of each of the streams " * 3, "s", "Mbit/s", ylim=(0, 7))
            plot.line("ours", [(0, 1), (1, 2)])
            files.append(plot.svg())
        self.assertEqual(files[0], files[1])
        self.assertNotIn("\n", plot.title)
        shown = plot.ax.get_title().splitlines()
        self.assertEqual((len(shown), max(map(len, shown)) <= 62), (2, True))
        self.assertIn(">ours</text>", files[0])
        self.assertAlmostEqual(plot.ax.get_ylim()[1], 7)

    def test_points_are_below_the_upper_end_of_the_axis(self):
        plot = papers.Plot("rates", "s", "Mbit/s", ylim=(0, None))
        plot.line("ours", [(0.0, 9.3), (1.0, 9.4)], style="dots").svg()
        self.assertGreater(plot.ax.get_ylim()[1], 9.8)

    def test_logarithmic_axes_of_few_decades_have_plain_numbers(self):
        for end, expected in ((40.0, True), (4e6, False)):
            plot = papers.Plot("rates", "Mbit/s", "share", log="x")
            plot.line("ours", [(1.0, 1.0), (end, 2.0)])
            self.assertEqual(">10</text>" in plot.svg(), expected)

    def test_no_two_lines_look_the_same(self):
        looks = itertools.islice(papers.Plot("rates", "s", "Mbit/s")._looks, 56)
        self.assertEqual(len({str(look[:2]) for look in looks}), 56)


class Results(Folder):
    paper = _figure.Paper("other", "A <title>", "cited", ())

    def result(self, holds: bool, error=None) -> _result.FigureResult:
        stage = self.stage()
        stage.claim("share of A", "1.5 Mbit/s", "1.7 Mbit/s", holds)
        table = stage.table("Shares", ["flow", "Mbit/s"])
        table.row("A", "1.5")
        table.row("B, long", "1.748")
        stage.plot("Errors", "time in s", "error in %").line(
            "ours", [(0.0, 1.0), (1.0, math.nan)], spread=[(0.5, 1.5), (0.5, 1.5)]
        )
        stage.note("with a <window>")
        shares = papers.figure("3.5", "shares", takes="1 min")(lambda stage: None)
        made = datetime.datetime.fromtimestamp(0, datetime.timezone.utc)
        return _result.FigureResult.of(shares, stage, error, made, 1.0, "again")

    def test_status_is_the_most_severe(self):
        error = papers.PaperError("no daemon", 4)
        found = [self.result(True), self.result(False), self.result(True, error)]
        states = [(result.status, result.exit_code) for result in found]
        self.assertEqual(states, [("holds", 0), ("differs", 1), ("failed", 4)])

    def test_run_without_what_a_figure_needs_fails_the_figure(self):
        def make(stage: papers.Stage) -> None:
            stage.run([Runs.job])[0].flow("other")

        found = papers.figure("1", "broken", takes="1 s", clocks="virtual")(make)()
        self.assertEqual((found.status, found.exit_code), ("failed", 70))
        self.assertIn("has no flow other", found.error)

    def test_text_has_claims_tables_and_notes(self):
        lines = [
            "3.5  shares",
            "  differs  share of A",
            "           paper: 1.5 Mbit/s   here: 1.7 Mbit/s",
            "  Shares",
            "    flow     Mbit/s",
            "    A           1.5",
            "    B, long   1.748",
            "  note: with a <window>",
        ]
        self.assertEqual(self.result(False).text().splitlines(), lines)

    def test_folder_keeps_figures_and_refuses_other_content(self):
        out = self.folder / "results"
        _results.Results(out, self.paper).add(self.result(True))
        again = _results.Results(out, self.paper)
        self.assertEqual(list(again.figures), ["3.5"])
        self.assertEqual(again.figures["3.5"]["plots"][0]["lines"][0]["points"][1], [1.0, None])
        points = (out / "figure-3.5.csv").read_text().splitlines()
        self.assertEqual(points[0], "plot,line,x,y,low,high")
        self.assertEqual(points[1], "Errors,ours,0.0,1.0,0.5,1.5")
        page = (out / "index.html").read_text()
        self.assertIn("with a &lt;window&gt;", page)
        self.assertIn('<section id="3.5">', page)
        self.assertNotIn("src=", page)
        with self.assertRaisesRegex(papers.PaperError, "of other"):
            _results.Results(out, _figure.Paper("third", "", "", ()))
        (out / "results.json").write_text("{")
        with self.assertRaises(papers.PaperError):
            _results.Results(out, self.paper)
        with self.assertRaisesRegex(papers.PaperError, "other files"):
            _results.Results(self.folder, self.paper)


class Runs(Folder):
    job = papers.Job("splaynet/bulk.toml", "bulk", "virtual", "hop", {"lab.duration": "1 s"})

    def test_words_of_a_job(self):
        words = " ".join(self.job.words("lab.toml", "runs", "machines"))
        self.assertEqual(
            words,
            "sim lab.toml --runs runs --name bulk-hop-virtual --set lab.model=hop "
            "--set lab.duration=1 s --json --quiet --no-progress",
        )

    def test_run_has_rates_and_summaries(self):
        (run,) = self.stage().run([self.job])
        self.assertTrue(run.trusted and run.label == "virtual, hop")
        received = sum(rate for _, rate in run.flow_rate("bulk", 0.1)) * 0.1 / 8
        self.assertAlmostEqual(received, run.flow("bulk")["received_bytes"], delta=1)
        with self.assertRaisesRegex(KeyError, "flow other"):
            run.flow("other")

    def test_failed_run_gives_reason_and_command(self):
        cases = [
            ('echo \'{"message":"no engine"}\'; exit 4', "no engine; repeat: netarium sim", 4),
            ('echo \'{"errors":[{"message":"no link"}]}\'; exit 2', "no link", 2),
            ("echo broken >&2; exit 70", "broken", 70),
            ("exit 9", "ended with code 9", 9),
            ("kill -9 $$", "ended with code -9", 70),
        ]
        for script, text, code in cases:
            with self.subTest(script):
                self.program(script)
                with self.assertRaisesRegex(papers.PaperError, text) as caught:
                    self.stage().run([self.job])
                self.assertEqual(caught.exception.exit_code, code)


class Measure(unittest.TestCase):
    def test_link_state_of_slbn_is_three_numbers(self):
        self.assertIn("b-neck", papers.measure("measure", "protocols")["protocols"])
        words = ("measure", "link-state", "--sessions", "100", "--protocol")
        self.assertEqual(papers.measure(*words, "slbn")["numbers"], 3)
        self.assertGreater(papers.measure(*words, "bfyz")["numbers"], 100)
        with self.assertRaisesRegex(papers.PaperError, "unknown protocol `other`"):
            papers.measure(*words, "other")

    def test_agreement_has_messages_or_delays(self):
        lab = str(REPRODUCE.parent / "labs/splaynet/large.toml")
        words = ["measure", "agreement", lab, "--sharing", "slbn", "--agents", "2"]
        words += ["--flows", "20", "--changes", "3"]
        self.assertGreater(papers.measure(*words)["bytes_per_s"], 0)
        self.assertEqual(len(papers.measure(*words, "--delays")["delays_ns"]), 3)

    def test_waits_are_those_of_each_method(self):
        words = ["measure", "timers", "--expected", "300 us", "--each", "3 ms"]
        found = papers.measure(*words)["waits"]
        self.assertEqual([w["method"] for w in found], ["sleep", "hybrid", "spin"])
        self.assertTrue(all(len(w["late_ns"]) == 10 for w in found))

    def test_constants_are_within_their_ranges(self):
        for found in papers.measure("measure", "bundle-constants")["constants"]:
            low, high = found["range"]
            self.assertTrue(low <= found["value"] <= high, found)


class Command(Folder):
    def command(self, *words: str, **options) -> subprocess.Popen:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(PATHS)}
        return subprocess.Popen(
            [sys.executable, "-m", "netarium_papers", *words],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )

    def test_list_has_all_figures(self):
        text, _ = self.command("--list", "--json").communicate()
        found = {paper["name"]: paper for paper in json.loads(text)["papers"]}
        self.assertEqual(list(found), list(_figure.NAMES))
        for paper in found.values():
            self.assertTrue(paper["title"] and paper["citation"] and paper["figures"])
            ids = [figure["id"] for figure in paper["figures"]]
            self.assertEqual(len(ids), len(set(ids)))
        text, _ = self.command("splaynet", "--list").communicate()
        self.assertEqual(len(text.splitlines()), len(found["splaynet"]["figures"]) + 2)

    def test_output_to_a_closed_pipe_ends_quietly(self):
        for words in (["--list"], ["splaynet", "3.6c", "--short", "--clock", "virtual"]):
            child = self.command(*words)
            child.stdout.close()
            stderr = child.stderr.read()
            child.stderr.close()
            self.assertEqual((child.wait(), stderr), (128 + signal.SIGPIPE, ""))

    def test_wrong_arguments_exit_with_2(self):
        (self.folder / "mine").mkdir()
        (self.folder / "mine/thesis.tex").touch()
        cases = [
            ([], "required"),
            (["other"], "splaynet, cluster, slbn"),
            (["splaynet", "9.9"], "3.6c"),
            (["splaynet", "3.6c", "--clock", "virtual", "--out", "mine"], "--out"),
        ]
        for words, text in cases:
            with self.subTest(words):
                child = self.command(*words)
                _, stderr = child.communicate()
                self.assertEqual(child.returncode, 2, stderr)
                self.assertIn(text, stderr)
        self.assertEqual(len(list((self.folder / "mine").iterdir())), 1)

    def test_figure_is_made_and_stored(self):
        words = ["splaynet", "3.6c", "--clock", "virtual", "--short", "--model", "hop", "--json"]
        child = self.command(*words)
        stdout, stderr = child.communicate()
        self.assertEqual(child.returncode, 0, stderr)
        (figure,) = json.loads(stdout)["figures"]
        self.assertTrue(all(claim["holds"] for claim in figure["claims"]) and figure["claims"])
        out = self.folder / "reproduce-splaynet"
        for run in figure["runs"]:
            self.assertTrue((out / run["folder"] / "run.json").is_file())
        for name in ("figure-3.6c.svg", "figure-3.6c-2.png", "figure-3.6c.csv", "index.html"):
            self.assertTrue((out / name).is_file(), name)

    def test_interrupt_ends_all_runs(self):
        child = self.command("splaynet", "3.6c", "--clock", "virtual", "--model", "hop")
        runs = self.folder / "reproduce-splaynet/runs/3.6c"
        while not list(runs.glob("*/run.json")):
            self.assertIsNone(child.poll())
        child.send_signal(signal.SIGINT)
        _, stderr = child.communicate()
        self.assertEqual(child.returncode, 130, stderr)
        states = [json.loads(path.read_text())["status"] for path in runs.glob("*/run.json")]
        self.assertNotIn("running", states)


if __name__ == "__main__":
    unittest.main()
