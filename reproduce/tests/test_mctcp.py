"""Figures of MCTCP: settings of carriers, statistics, claims, random transfers."""

import math
import re
import sys
import unittest
from pathlib import Path

REPRODUCE = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(REPRODUCE), str(REPRODUCE.parent / "python")]

try:
    import polars  # noqa: F401
except ImportError as error:
    raise unittest.SkipTest(f"{error.name} is not installed") from None

from netarium_papers import Evidence
from netarium_papers.mctcp.grid import PATHS, Case, with_tcp
from netarium_papers.mctcp.random_transfers import EVENTS, transfer
from netarium_papers.mctcp.schedule import reaches
from netarium_papers.mctcp.stream import Spread, claim, goodput, mean_rates, number


class FakeRun:
    """A run that ends after 3 s."""

    record = {"interval_s": 1.0}

    def flow_rate(self, flow, step):
        return [(0.5, 8e6), (1.5, 10e6), (2.5, 12e6)]


class Carriers(unittest.TestCase):
    def test_each_carrier_uses_only_its_paths(self):
        case = Case(PATHS, 2, "a", "A", {"flow.bulk.window": "1 MiB"}, with_tcp(2))
        self.assertEqual(case.carriers, ("mctcp", "mptcp", "tcp1", "tcp2"))
        for carrier, down in (("mctcp", "345678"), ("mptcp", "345678"), ("tcp2", "1345678")):
            job = case.job(carrier, "virtual", 7)
            expected = {
                "lab.seed": "7",
                "flow.bulk.transport": carrier.rstrip("2"),
                "flow.bulk.window": "1 MiB",
                **{f"link.path{number}.state": "down" for number in down},
            }
            if carrier != "tcp2":
                expected["flow.bulk.via"] = '["path1", "path2"]'
            self.assertEqual((job.name, job.settings), (f"a-{carrier}-7", expected))

    def test_start_and_tolerance(self):
        settings = Case(PATHS, 2, "a", "A", step_ms=7).job("mctcp", "wall", 3).settings
        self.assertEqual(settings["flow.bulk.start"], "21 ms")
        self.assertEqual(settings["lab.tolerance"], "5 ms")


class Statistics(unittest.TestCase):
    def test_goodput_is_zero_after_the_end_of_a_run(self):
        self.assertAlmostEqual(goodput(FakeRun(), 1, 3), 11)
        self.assertAlmostEqual(goodput(FakeRun(), 1, 5), 5.5)

    def test_spread_has_a_value_of_a_run_as_median(self):
        spread = Spread.of([3.0, 1.0, 2.0, 9.0, 4.0])
        self.assertEqual(str(spread), "3.00 (1.00 to 9.00)")
        self.assertEqual(spread.over(2.0), (1.5, 0.5, 4.5))
        for none in ([], [1.0, math.nan]):
            self.assertEqual(str(Spread.of(none)), "–")

    def test_numbers_have_about_three_digits(self):
        values = (123.4, 20.04, 9.876, 0.0, 0.01234, math.inf)
        self.assertEqual([*map(number, values)], ["123", "20.0", "9.88", "0.00", "0.0123", "–"])

    def test_mean_rates_end_with_the_shortest_run(self):
        mean, spread = mean_rates([[(0.5, 1e6), (1.5, 2e6), (2.5, 9e6)], [(0.5, 3e6), (1.5, 6e6)]])
        self.assertEqual(mean, [(0.5, 2), (1.5, 4)])
        self.assertEqual(spread, [(1, 3), (2, 6)])


class Claims(unittest.TestCase):
    def test_claim_is_about_the_median(self):
        evidence, ours = Evidence(), Spread.of([0.9, 1.0, 1.1])
        beside = [Spread.of([0.5]), Spread()]
        claim(evidence, "wall", "ratio", [ours, *beside], at_least=1.0)
        claim(evidence, "wall", "gap", [ours], at_most=0.99)
        claim(evidence, "wall", "ratio", [ours], at_least=1.01)
        claim(evidence, "virtual", "gap", [Spread()], at_most=1.0)
        self.assertEqual([of.holds for of in evidence.claims], [True, False, False, False])
        first, second, *_ = evidence.claims
        self.assertEqual(first.what, "ratio (wall)")
        self.assertEqual(first.paper, "required: at least 1.00; kernel MPTCP 0.50 (0.50 to 0.50)")
        self.assertEqual(second.paper, "required: at most 0.99")

    def test_stream_that_has_lagged_less_need_not_catch_up(self):
        self.assertTrue(reaches(9.95, 10.0, 5.0, 9.0))
        self.assertTrue(reaches(15.6, 16.4, 9.99, 10.0))
        self.assertFalse(reaches(15.6, 16.4, 8.0, 10.0))
        self.assertFalse(reaches(0.0, 16.4, 0.0, 0.0))
        self.assertFalse(reaches(math.nan, 1.0, math.nan, 1.0))


class RandomTransfers(unittest.TestCase):
    def test_transfers_repeat_and_end_with_usable_paths(self):
        self.assertEqual(transfer(3), transfer(3))
        self.assertNotEqual(transfer(3), transfer(4))
        for case, _ in map(transfer, range(1, 200)):
            for event in (EVENTS - 1, EVENTS):
                found = re.search(r'loss = "(\d+) %"', case.settings[f"at.{event}.set"])
                self.assertLessEqual(int(found[1]), 5)


if __name__ == "__main__":
    unittest.main()
