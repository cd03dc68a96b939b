"""Figures of Bundler: functions that read and judge, without runs."""

import math
import unittest
from pathlib import Path

import polars

from netarium_papers import Options, Stage
from netarium_papers.bundler import harm, phases, sensitivity, short_cross, timeline
from netarium_papers.bundler import harm_settings, wall_check
from netarium_papers.bundler.internet import Measured
from netarium_papers.bundler.slowdown import ALL, LARGE, MEDIUM, SMALL, Requests


def stage():
    return Stage(("virtual",), Path("no-such-folder"), Options(Path(".")))


def verdicts(of):
    return [claim.holds for claim in of.claims]


def small(*slowdowns):
    """A run of small requests, one per second."""
    count = len(slowdowns)
    columns = {"start": range(count), "size": [1000] * count, "slowdown": slowdowns}
    return polars.DataFrame(columns, strict=False)


class Reading(unittest.TestCase):
    def test_states_by_time(self):
        words = ["learning", "delay", "delay", "pass-through", "delay"]
        states = list(enumerate(words, 1))
        self.assertEqual(timeline.first(states, "delay"), 2)
        self.assertEqual(timeline.first(states, "delay", 3.5), 5)
        self.assertEqual(timeline.first(states, "disabled"), math.inf)
        self.assertEqual(timeline.last(states, "delay", 4), 3)
        self.assertEqual(timeline.share(states, "delay", 1, 5), 0.75)

    def test_coarse_points_are_means(self):
        points = [(0.1, 1.0), (0.6, 3.0), (1.2, math.nan), (1.4, 5.0), (2.0, 7.0)]
        self.assertEqual(timeline.coarse(points, 1), [(0.5, 2.0), (1.5, 5.0)])
        self.assertTrue(math.isnan(timeline.mean(points, 3, 4)))

    def test_requests_by_size_and_time(self):
        frame = small(1.0, 2.0, 3.0, 4.0).with_columns(size=polars.Series([1e3, 1e3, 1e3, 2e6]))
        requests = Requests([frame])
        self.assertEqual([requests.median(of) for of in (SMALL, LARGE, MEDIUM)], [2, 4, math.inf])
        self.assertEqual(requests.between(2, 9).median(ALL), 3)
        self.assertEqual(requests.distribution()[-1], (4, 100))

    def test_reactions_start_at_their_events(self):
        at = [50, 61, 100, 124, 130]
        states = [(s, "delay" if s in (50, 130) else "pass-through") for s in at]
        self.assertEqual(phases.reactions(states, phases.ENDS), (1, 4))
        self.assertEqual(phases.reactions(states[:1], phases.ENDS), (math.inf, math.inf))

    def test_loops_are_compared_with_their_own_base(self):
        base = [[100.0 + at] * 4 for at in range(10)]
        loops = [[[rtt + by for rtt in of] for of in base] for by in (0, 50, 5.9)]
        for excess in Measured(loops, [], []).excess(2, 0.75):
            self.assertAlmostEqual(excess, 5.9)


class Claims(unittest.TestCase):
    def test_wall_claims_hold_in_their_range(self):
        found = stage()
        for value in (0.3, 0.8, 1.3, math.nan):
            wall_check.claim(found, "goodput", "the same", value, 0.5, 1)
            wall_check.claim(found, "goodput", "the same", value, 0.5)
        self.assertEqual(verdicts(found), [False, False, True, True, False, True, False, False])
        papers = ["the same (check: 0.5 to 1)", "the same (check: at least 0.5)"]
        self.assertEqual([claim.paper for claim in found.claims[:2]], papers)

    def test_half_of_the_improvement_is_required(self):
        found = stage()
        for load, ratio in ((42, 0.79), (42, 0.8), (30, 0.8), (30, 0.81)):
            short_cross.claim_quartile(found, load, ratio)
        self.assertEqual(verdicts(found), [True, False, True, False])
        self.assertEqual(found.claims[2].paper, "(here: at most 0.80 ×)")


class Harm(unittest.TestCase):
    def test_reports_harm_beyond_chance_only(self):
        same = [harm.Compared.of(-1, [50.0, 52.0], [50.0, 52.0])] * 2
        bulk = ([10.0, 10.0], [7.0, 7.1], [9.0, 9.9])
        rows = [[harm.Compared.of(1, [10.0, 10.0], ours), *same] for ours in bulk]
        settings = [harm_settings.Setting(name, {}) for name in ("even", "slow", "noisy")]
        found = stage()
        harm.compare(found, "virtual", settings, rows)
        self.assertEqual(verdicts(found), [False, True, True])
        self.assertEqual(found.claims[0].ours, "1: slow")

    def test_longer_requests_are_harm(self):
        self.assertTrue(harm.Compared.of(-1, [100.0] * 5, [120.0] * 5).is_harmful(0))
        self.assertFalse(harm.Compared.of(-1, [120.0] * 5, [100.0] * 5).is_harmful(0))

    def test_design_is_repeatable_with_distinct_names(self):
        design = harm_settings.design()
        self.assertEqual(design, harm_settings.design())
        self.assertEqual(len({setting.name for setting in design}), len(design))
        self.assertEqual(len(harm_settings.named(harm.WALL)), len(harm.WALL))

    def test_constants_change_within_their_range(self):
        constant = {"value": 0.8, "range": [0.3, 1.0]}
        self.assertEqual(sensitivity.changed(constant, 0.5), 0.4)
        self.assertEqual(sensitivity.changed(constant, 2), 1.0)
        self.assertIsNone(sensitivity.changed({**constant, "range": [0.8, 1.0]}, 0.5))
        self.assertEqual([sensitivity.number(of) for of in (6.0, 2e-05)], ["6", "0.00002"])
        found = [sensitivity.signed(of, 1) for of in (0.04, -0.04, 0.06, -2.0)]
        self.assertEqual(found, ["0.0", "0.0", "+0.1", "-2.0"])


if __name__ == "__main__":
    unittest.main()
