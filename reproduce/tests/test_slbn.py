"""Figures of the SLBN paper: samples, and claims of made-up runs."""

import types
import unittest

import polars

from netarium_papers import Evidence
from netarium_papers.slbn import NAMES, accuracy, churn, exp_1a, exp_1b, exp_2a, exp_2b
from netarium_papers.slbn import failure, loss, state
from netarium_papers.slbn.protocol_run import ProtocolRun


def made_up(protocol, samples, assigned=10, **summary):
    """A run with 10 sessions and a sample every 100 ms: errors at sources and bottlenecks in %,
    and the queue in packets of 10 µs."""
    rows = []
    for place, (source, bottleneck, queue) in enumerate(samples):
        row = {"time_ns": (place + 1) * 100_000_000, "sessions": 10, "assigned": assigned}
        for name, error in (("source", source), ("bottleneck", bottleneck)):
            parts = {"mean": error, "abs": abs(error), "p10": error - 5.0, "p90": error + 5.0}
            row.update({f"{name}_error_{part}": value / 100 for part, value in parts.items()})
        queues = {"queue_max_packets": queue, "queue_max_ns": queue * 10_000}
        rows.append({**row, "bottlenecks_over": 0.25, **queues})
    table = polars.DataFrame(rows)
    run = types.SimpleNamespace(frame=lambda name: table, record={"control": summary})
    return ProtocolRun(run, NAMES[protocol])


def verdicts(*calls):
    """Which claims hold that these calls add: each a function and its arguments."""
    evidence = Evidence()
    for function, *args in calls:
        function(evidence, *args)
    return [claim.holds for claim in evidence.claims]


class Samples(unittest.TestCase):
    def test_samples_are_in_percent_and_sessions_without_rate_count_fully(self):
        run = made_up("slbn", [(-5.0, 1.0, 192)], assigned=8)
        row = run.at(0.1)
        self.assertAlmostEqual(row["error_of_all"], (8 * 5 + 2 * 100) / 10)
        self.assertAlmostEqual(row["source_p90"], 0.0)
        self.assertEqual([row[name] for name in ("without_rate", "over", "queue")], [20, 25, 192])
        self.assertAlmostEqual(row["queue_ms"], 1.92)
        self.assertIsNone(run.at(0.05))
        self.assertEqual(accuracy.cell(run.moments("over", 0.1, 1.0).mean), "–")

    def test_worst_sample_decides(self):
        slbn = made_up("slbn", [(5.0, 1.0, 0), (7.0, 4.9, 0)])
        bfyz = made_up("bfyz", [(4.0, 1.0, 0), (5.5, 5.1, 0)])
        over, accurate = accuracy.claim_not_over, accuracy.claim_as_accurate
        calls = [(over, run, 0, end, "") for run, end in ((slbn, 1), (bfyz, 1), (bfyz, 0.1))]
        self.assertEqual(verdicts((accurate, slbn, bfyz), *calls), [True, True, False, True])
        self.assertEqual(verdicts((accurate, made_up("slbn", [(9.0, 0, 0)]), bfyz)), [False])


class Experiments(unittest.TestCase):
    def test_order_of_the_protocols(self):
        for errors, expected in (
            ([1.0, 1.5, 20.0, 300.0, 250.0, 500.0, 1.0], [True] * 6),
            ([1.0, 21.0, 50.0, 100.0, 90.0, 40.0, 1.0], [False] * 6),
        ):
            pairs = zip(exp_1a.PROTOCOLS, errors)
            runs = {name: made_up(name, [(error, 0.0, 1)] * 9) for name, error in pairs}
            last = (exp_1a.claim_cobb_gouda, runs["cobb-gouda"])
            calls = ((exp_1a.claim_order, runs), (exp_1a.claim_errors, runs), last)
            self.assertEqual(verdicts(*calls), expected)

    def test_bounded_queues_do_not_grow_after_the_joins(self):
        for later, expected in ((94, True), (95, False)):
            run = made_up("slbn", [(0.0, 0.0, 90)] * 10 + [(0.0, 0.0, later)])
            self.assertEqual(exp_1b.bounded(run), (90, later, expected))

    def test_bins_have_sessions_of_similar_size(self):
        sessions = [(224.0, 1.0), (240.0, 2.0), (249.0, None), (320.0, None), (5000.0, 9.0)]
        first, last = exp_1b.bins(sessions)
        self.assertEqual(first, (713 / 3, 1.5, 3, 2))
        self.assertEqual((last[0], exp_1b.mean_time(sessions)), (5000, (4, 2)))

    def test_queues_and_completion_times_are_compared(self):
        stressed = {"cobb-gouda": 5000, "piqi-rcp": 4000}
        runs = {}
        for name in exp_1b.PROTOCOLS:
            packets, factor = stressed.get(name, 9), 1 if name == "slbn" else 2
            later = [(0.0, 0.0, packets * factor)] * 20
            runs[name] = made_up(name, [(0.0, 0.0, packets)] * 10 + later)
        times = dict(zip(exp_1b.PROTOCOLS, [2.0, 2.2, 2.5, 5.0, 2.9, 1.5, 2.0]))
        claims = ((exp_1b.claim_queues, runs), (exp_1b.claim_completion, runs, times))
        # Cobb-Gouda has 10,000 packets in the third second: more than twice 4,775.
        self.assertEqual(verdicts(*claims), [True, True, False, True, True])
        times.update({"rcp": 2.9, "piqi-rcp": 3.1})
        self.assertEqual(verdicts((exp_1b.claim_completion, runs, times)), [False, False])

    def test_rates_must_be_reached_before_the_end(self):
        for last, expected in ((0.5, True), (1.5, False)):
            run = made_up("slbn", [(30.0, -4.0, 9), (8.0, -3.0, 9), (last, -1.0, 9)])
            self.assertEqual(verdicts((exp_2a.claim_reached, run)), [expected, True])

    def test_second_phase_counts(self):
        samples = [(50.0, 20.0, 9_000)] * 90 + [(-2.0, -8.0, 100)] * 16
        slbn = made_up("slbn", samples)
        samples[95] = (-2.0, 3.0, 100)
        bfyz = made_up("bfyz", samples)
        self.assertEqual(verdicts((exp_2b.claims, slbn, bfyz, False)), [True] * 5)
        samples[95] = (9.0, 7.0, 4_000)
        calls = (exp_2b.claims, made_up("slbn", samples), slbn, False)
        self.assertEqual(verdicts(calls), [False, False, True, False, False])


class BeyondThePaper(unittest.TestCase):
    def test_second_of_churn_counts(self):
        calm = [(50.0, 20.0, 9_000)]
        run = made_up("slbn", calm * 12 + [(-3.0, -2.0, 100)] * 8 + calm * 3)
        found = churn.Churn.of(run, 100)
        self.assertEqual([round(value, 9) for value in found], [100, 3, -2, -2, 1])
        other = found._replace(source=0.5)
        self.assertEqual(verdicts((churn.claims, [found], [other])), [False, True])

    def test_epochs_must_keep_errors_small_with_loss(self):
        errors = [(0.1, 0.0), (0.2, 0.0), (30.0, 0.0), (14.0, 0.0), (40.0, 0.0), (41.0, 6.0)]
        keys = [(name, percent) for percent in (0, 1, 5) for name in ("slbn", "slbn-epochs")]
        runs = {key: made_up(key[0], [(*of, 0)] * 60) for key, of in zip(keys, errors)}
        self.assertEqual(verdicts((loss.claims, runs)), [True, True, False, True, True, False])

    def test_sessions_without_rate_and_runs_without_samples_fail(self):
        for count, expected in ((60, [False, True]), (3, [False, False])):
            samples = [(0.1, 0.0, 0)] * count
            runs = {("slbn", 0): made_up("slbn", samples)}
            runs["slbn-epochs", 0] = made_up("slbn-epochs", samples, assigned=9)
            self.assertEqual(verdicts((loss.claims, runs)), expected)

    def test_recovery_is_required_after_both_changes(self):
        samples = [(0.1, 0.0, 1)] * 80
        epochs = made_up("slbn-epochs", samples, rerouted=4)
        runs = {"slbn-epochs": epochs, "slbn": made_up("slbn", samples[:79] + [(7.0, -3.0, 1)])}
        self.assertEqual(verdicts((failure.claims, runs)), [True] * 4 + [False])
        runs = {"slbn-epochs": made_up("slbn-epochs", samples[:60], rerouted=0)}
        self.assertEqual(verdicts((failure.claims, runs)), [False, True, False])

    def test_growth_of_the_state(self):
        found = [state.growth([10, 100], numbers) for numbers in ([3, 3], [12, 102], [3, 9])]
        self.assertEqual(found, ["constant", "linear", "neither constant nor linear"])


if __name__ == "__main__":
    unittest.main()
