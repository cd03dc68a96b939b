"""Tests of dev/calibrate."""

import importlib.machinery
import importlib.util
import unittest
from pathlib import Path


def load():
    path = Path(__file__).with_name("calibrate")
    loader = importlib.machinery.SourceFileLoader("calibrate", str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("calibrate", loader))
    loader.exec_module(module)
    return module


calibrate = load()


def record(goodput, p50, trusted=True):
    delay = {"p50_ns": p50, "p99_ns": p50}
    flow = {"name": "f", "goodput_bit_per_s": goodput, "delay": delay}
    verdict = {"trusted": trusted, "reasons": ["late"]}
    return {"flows": [flow], "verdict": verdict}


class Calibrate(unittest.TestCase):
    def test_errors_are_in_units_of_the_tolerance(self):
        truth = record(1e6, 100_000_000)
        errors = calibrate.compare(truth, record(0.97e6, 101_000_000))
        self.assertAlmostEqual(errors["f goodput"], 1.5)
        self.assertAlmostEqual(errors["f p50"], 0.2)
        short = calibrate.compare(record(1e6, 1_000_000), record(1e6, 3_000_000))
        self.assertAlmostEqual(short["f p99"], 2.0)

    def test_only_results_of_trusted_runs_count_as_wrong(self):
        truth = record(1e6, 100_000_000)
        runs = [record(1e6, 100_000_000), record(0.9e6, 100_000_000), record(0.9e6, 1, False)]
        seen = [("lab", run, calibrate.compare(truth, run)) for run in runs]
        row = calibrate.row("idle", seen)
        self.assertEqual((row["runs"], row["trusted"], row["fit"]), (3, 2, 1))
        self.assertEqual((row["results"], row["right"], row["false"]), (6, 5, 1))
        self.assertEqual(len(list(calibrate.wrong("idle", seen))), 2)
        self.assertIn("| idle | 3 | 2 | 1 | 5 of 6 (83.3 %) | 1 |", list(calibrate.table([row])))


if __name__ == "__main__":
    unittest.main()
