"""Tests of dev/run_tests.py and dev/soak: `python3 -m unittest discover -s dev`."""

import contextlib
import datetime
import io
import os
import tempfile
import unittest
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from unittest import mock

import run_tests
from run_tests import Failure, Quarantine, Target

HEADER = "     Running tests/labs.rs (target/debug/deps/labs-0123456789abcdef)"
TODAY = datetime.date(2026, 11, 23)
OUTPUT = f"""\
     Running unittests src/lib.rs (target/debug/deps/emu-00)
test clock::tests::runs ... ok
test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.25s
{HEADER}
test steady ... ok
test flaky ... FAILED

failures:

---- flaky stdout ----
too late by 3 ms

failures:
    flaky

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 8.50s

error: test failed, to rerun pass `-p netarium-lab-emu --test labs`
""".splitlines()
LABS = Target("-p netarium-lab-emu --test labs", HEADER)
FLAKY = Failure(LABS, "flaky")


def entry(**changes):
    known = {
        "package": "netarium-lab-emu",
        "test": "flaky",
        "reason": "the machine's timer",
        "expires": datetime.date(2026, 11, 30),
    }
    return {**known, **changes}


def judge(outcomes, *entries):
    """Judges the flaky test's failure; its repetitions have these outcomes."""
    repetitions = iter(outcomes)
    with contextlib.redirect_stderr(io.StringIO()) as said:
        passed = run_tests.judge(
            [FLAKY], Quarantine(entries, TODAY), lambda _: {"flaky": next(repetitions)}
        )
    return passed, said.getvalue()


class Output(unittest.TestCase):
    def test_finds_failures_with_their_output(self):
        failed, output = run_tests.failures(OUTPUT)
        self.assertEqual(failed, [FLAKY])
        self.assertIn("too late by 3 ms", output)

    def test_keeps_output_after_quoted_results_of_other_tests(self):
        quoted = ["failures:", "    inner", "", "test result: FAILED. 0 passed", "kill: no process"]
        at = OUTPUT.index("too late by 3 ms")
        failed, output = run_tests.failures(OUTPUT[:at] + quoted + OUTPUT[at:])
        self.assertEqual(failed, [FLAKY])
        self.assertIn("kill: no process", output)
        self.assertIn("too late by 3 ms", output)

    def test_reports_a_target_that_crashed(self):
        crashed = [HEADER, "error: test failed, to rerun pass `-p netarium-lab-emu --test labs`"]
        self.assertEqual(run_tests.failures(crashed)[0], [Failure(LABS, None)])

    def test_reads_results_of_one_target(self):
        expected = {"steady": "ok", "flaky": "FAILED"}
        self.assertEqual(run_tests.results(OUTPUT, HEADER), expected)
        self.assertIn("clock::tests::runs", run_tests.results(OUTPUT))

    def test_sorts_durations_slowest_first(self):
        seconds = [seconds for seconds, _ in run_tests.durations(OUTPUT)]
        self.assertEqual(seconds, [8.5, 0.25])


class Judgement(unittest.TestCase):
    def test_fails_even_if_all_repetitions_pass(self):
        passed, said = judge(["ok", "ok", "ok"])
        self.assertFalse(passed)
        self.assertIn("now and then: failed again in 0 of 3", said)

    def test_tells_a_test_that_always_fails_from_a_flaky_one(self):
        self.assertIn("it fails always", judge(["FAILED"] * 3)[1])
        self.assertIn("it fails now and then", judge(["FAILED", "ok", "FAILED"])[1])

    def test_quarantined_test_passes_if_a_repetition_passes(self):
        passed, said = judge(["FAILED", "FAILED", "ok"], entry())
        self.assertTrue(passed)
        self.assertIn("the machine's timer", said)

    def test_quarantined_test_that_always_fails_is_a_failure(self):
        self.assertFalse(judge(["FAILED"] * 3, entry())[0])

    def test_quarantine_of_another_package_excuses_nothing(self):
        self.assertFalse(judge(["ok"] * 3, entry(package="netarium-lab-sim"))[0])

    def test_expired_quarantine_excuses_nothing(self):
        self.assertFalse(judge(["ok"] * 3, entry(expires=datetime.date(2026, 11, 22)))[0])

    def test_stops_repeating_when_the_budget_is_spent(self):
        with mock.patch.object(run_tests, "REPETITION_BUDGET_SECONDS", -1):
            passed, said = judge([], entry())
        self.assertFalse(passed)
        self.assertIn("out of time", said)


class Entries(unittest.TestCase):
    def errors(self, **changes):
        return Quarantine([entry(**changes)], TODAY).errors

    def test_complete_entry_is_valid_until_its_last_day(self):
        self.assertEqual(self.errors(expires=TODAY), [])

    def test_rejects_expired_entry(self):
        self.assertIn("expired on 2026-11-22", self.errors(expires=datetime.date(2026, 11, 22))[0])

    def test_rejects_entry_without_reason_or_date(self):
        self.assertTrue(self.errors(reason=" "))
        self.assertTrue(self.errors(expires="soon"))
        self.assertIn("tracker", self.errors(tracker="#7")[0])
        incomplete = Quarantine([{"package": "netarium", "test": "x"}], TODAY)
        self.assertIn("expires, reason", incomplete.errors[0])

    def test_reports_entry_of_a_test_that_does_not_exist(self):
        quarantine = Quarantine([entry()], TODAY)
        self.assertEqual(quarantine.missing({"flaky": "ok"}), [])
        self.assertIn("no such test", quarantine.missing({"steady": "ok"})[0])

    def test_file_of_this_project_is_valid(self):
        self.assertEqual(Quarantine.read().errors, [])


class WholeRun(unittest.TestCase):
    """The script's exit code, with cargo replaced."""

    def run_main(self, repetitions, entries=(), lines=OUTPUT, status=101):
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
            log = Path(folder) / "failures.log"
            environment = {"NETARIUM_FAILURE_LOG": str(log), "PROPTEST_RNG_SEED": "7"}
            stack.enter_context(mock.patch.dict(os.environ, environment))
            quarantine = Quarantine(list(entries), TODAY)
            stack.enter_context(mock.patch.object(Quarantine, "read", lambda: quarantine))
            stack.enter_context(mock.patch.object(run_tests, "run", lambda *_: (status, lines)))
            again = iter(repetitions)
            repeat = lambda _: {"flaky": next(again)}
            stack.enter_context(mock.patch.object(run_tests, "repeat_target", repeat))
            stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
            said = stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
            code = run_tests.main()
            kept = log.read_text() if log.exists() else ""
            return code, said.getvalue(), kept

    def test_a_test_that_fails_in_70_percent_of_runs_fails_the_run_and_is_kept(self):
        code, said, kept = self.run_main(["FAILED", "ok", "ok"])
        self.assertEqual(code, 1)
        self.assertIn("seed=7 flaky (-p netarium-lab-emu --test labs)", kept)
        self.assertIn(kept.strip(), said)

    def test_first_failure_of_a_quarantined_test_is_kept(self):
        code, _, kept = self.run_main(["ok"] * 3, [entry()])
        self.assertEqual(code, 0)
        self.assertIn("flaky", kept)

    def test_expired_entry_fails_a_run_without_failures(self):
        lines = OUTPUT[:3] + ["test flaky ... ok"]
        self.assertEqual(self.run_main([], lines=lines, status=0)[0], 0)
        expired = entry(expires=datetime.date(2026, 1, 1))
        self.assertEqual(self.run_main([], [expired], lines, 0)[0], 1)

    def test_build_error_fails(self):
        self.assertEqual(self.run_main([], lines=["error: could not compile `base`"])[0], 1)


class Soak(unittest.TestCase):
    def setUp(self):
        loader = SourceFileLoader("soak", str(Path(__file__).parent / "soak"))
        self.soak = module_from_spec(spec_from_loader("soak", loader))
        loader.exec_module(self.soak)

    def test_prints_flake_rates_highest_first(self):
        counts = {}
        for number in range(10):
            found = {"a": "FAILED" if number < 7 else "ok", "b": "ok"}
            found["c"] = "FAILED" if number == 9 else "ok"
            self.soak.count(counts, found, number, 0)
        lines = self.soak.table(counts)
        self.assertTrue(lines[0].startswith(" 70.0 %  7/10  a"), lines)
        self.assertTrue(lines[1].startswith(" 10.0 %  1/10  c  (seed 9 load 0)"), lines)
        self.assertEqual(lines[2], "2 of 3 tests failed at least once")

    def test_load_ends_with_its_block(self):
        with self.soak.busy(2):
            pass


if __name__ == "__main__":
    unittest.main()
