"""Figures of the SplayNet paper: shares, routes, phases, and live flows of a made-up run."""

import random
import tempfile
import types
import unittest
from pathlib import Path

from netarium_papers import Evidence
from netarium_papers.splaynet import fig_3_5, fig_3_7
from netarium_papers.splaynet.live_flows import LiveFlows, Sample
from netarium_papers.splaynet.routes import Network, Path as Route
from netarium_papers.splaynet.shares import Demand, max_min, tcp

MS = 10**6


def network(roles, *links):
    """A topology of nodes and of links `(a, b, rate, ms up, ms down)`."""
    nodes = [{"name": name, "role": role} for name, role in roles.items()]
    found = [
        {"ends": [a, b], "rate_bit_per_s": [rate, rate], "delay_ns": [up * MS, down * MS]}
        for a, b, rate, up, down in links
    ]
    return {"nodes": nodes, "links": found}


class Shares(unittest.TestCase):
    def test_example_of_the_paper_is_exact(self):
        evidence = Evidence()
        fig_3_5.solved(evidence)
        self.assertEqual([claim.holds for claim in evidence.claims], [True] * 3)

    def test_window_of_the_paper_contradicts_its_figure(self):
        found = fig_3_5.shares(fig_3_5.STATES[-1].shares, 64 << 10)
        self.assertAlmostEqual(found["B"], 1.747627, places=6)

    def test_each_flow_is_at_its_cap_or_has_a_bottleneck(self):
        rng = random.Random(1)
        for _ in range(50):
            capacities = [rng.uniform(1, 10) for _ in range(6)]
            paths = [rng.sample(range(6), rng.randint(1, 4)) for _ in range(rng.randint(1, 20))]
            flows = [Demand(path, rng.uniform(0.1, 5), rng.expovariate(1)) for path in paths]
            rates = max_min(capacities, flows)
            levels = [rate / flow.weight for rate, flow in zip(rates, flows)]
            on = [[n for n, flow in enumerate(flows) if link in flow.path] for link in range(6)]
            full = [sum(rates[n] for n in on[k]) >= capacities[k] * (1 - 1e-9) for k in range(6)]
            for link in range(6):
                self.assertLessEqual(sum(rates[n] for n in on[link]), capacities[link] * (1 + 1e-9))
            for n, flow in enumerate(flows):
                highest = [max(levels[of] for of in on[k]) for k in flow.path if full[k]]
                is_fair = any(levels[n] >= level * (1 - 1e-9) for level in highest)
                self.assertTrue(is_fair or rates[n] >= flow.cap * (1 - 1e-9))

    def test_flow_without_links_has_its_window(self):
        self.assertEqual(max_min([], [tcp([], 0.0, window=1)]), [8e6])


class Routes(unittest.TestCase):
    def test_paths_have_the_lowest_delay_and_fewest_hops(self):
        roles = {"a": "host", "b": "host", "h": "host", "r": "router", "s": "router"}
        links = [("a", "r", None, 1, 2), ("r", "b", None, 3, 4), ("a", "b", None, 9, 5)]
        found = Network(network(roles, *links, ("a", "h", None, 1, 1), ("h", "b", None, 1, 1)))
        self.assertEqual(found.paths("a", "b"), (Route((0, 2), 4 * MS),))
        self.assertEqual(found.paths("b", "a"), (Route((5,), 5 * MS),))
        self.assertEqual(found.paths("a", "s"), ())
        two = Network(network(roles, ("r", "s", None, 1, 1), ("s", "r", None, 1, 1)))
        self.assertEqual(two.paths("r", "s"), (Route((0,), MS), Route((3,), MS)))


class Phases(unittest.TestCase):
    TIMES = [(0.0, 115.0), (5.0, 125.0), (10.0, 127.5)]

    def test_phases_lie_between_starts_and_ends(self):
        found = fig_3_7.phases(self.TIMES, 1.0, 1.0)
        streams = [(0,), (0, 1), (0, 1, 2), (1, 2), (2,)]
        self.assertEqual([phase.streams for phase in found], streams)
        self.assertEqual(found[2], (11.0, 115.0, (0, 1, 2)))
        for least, count in ((1.5, 5), (1.6, 4), (9.1, 1), (200.0, 0)):
            self.assertEqual(len(fig_3_7.phases(self.TIMES, 1.0, least)), count)
        gap = fig_3_7.phases([(0.0, 4.0), (0.0, 4.0), (6.0, 8.0)], 0.0, 0.5)
        self.assertEqual([phase.streams for phase in gap], [(0, 1), (2,)])

    def test_only_whole_steps_of_a_phase_count(self):
        # 4 in the first two seconds, then 1 and 3 in turn, each for half a second.
        middles = [0.05 + 0.1 * n for n in range(40)]
        rates = [(at, 4.0 if at < 2 else 1.0 if at % 1 < 0.5 else 3.0) for at in middles]
        for start, end, mean, count in ((2, 4, 2, 2), (0, 4, 3, 4), (1.95, 2.45, 1, 0)):
            found = fig_3_7.share(fig_3_7.Phase(start, end, (0,)), 0, rates)
            self.assertAlmostEqual(found.mean, mean)
            self.assertEqual(found.seconds.count, count)
        self.assertIsNone(fig_3_7.share(fig_3_7.Phase(0.98, 1.05, (0,)), 0, rates))


class LiveShares(unittest.TestCase):
    """Two streams share 10 Mbit/s for a second; datagrams of the third flow start later."""

    FLOWS = (
        ("one", "b", 'transport = "tcp"\nstart = "0 ns"'),
        ("two", "c", 'transport = "tcp"\nstart = "1 s"\nduration = "1 s"'),
        ("udp", "c", 'transport = "udp"\nrate = "1 Mbit/s"\npacket = "434 B"\nstart = "3 s"'),
    )

    def setUp(self):
        roles = {"a": "host", "b": "host", "c": "host", "r": "router"}
        links = [("a", "r", 10**7, 5, 5), ("r", "b", None, 0, 0), ("r", "c", None, 0, 0)]
        lab = '[lab]\nduration = "4 s"\n' + "".join(
            f'[[flow]]\nname = "{name}"\nfrom = "a"\nto = "{to}"\n{keys}\n'
            for name, to, keys in self.FLOWS
        )
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "lab.toml").write_text(lab)
            record = {"topology": network(roles, *links)}
            self.flows = LiveFlows(types.SimpleNamespace(record=record, folder=Path(folder)))

    def row(self, ms, flow, share, sent=100):
        of = self.flows.flows[flow]
        return Sample(ms * MS, 50 * MS, *of.ends[:2], 7, of.ends[2], share, of.rate, sent)

    def test_shares_are_compared_with_those_of_live_flows(self):
        found = [at // MS for at in self.flows.changes()]
        self.assertEqual(found, [0, 1000, 2000, 3000, 4000, 4050])
        self.assertEqual(self.flows.flows[2].rate, 1_152_073)  # 434 B and 66 B of headers.
        full, half = 10**7, 5 * 10**6
        rows = [(50, 0, 1), (500, 0, full), (1050, 0, full), (1100, 0, half), (1100, 1, 5_500_000)]
        rows += [(2150, 0, half), (2150, 1, half), (2300, 0, full), (2300, 1, half, 0)]
        rows += [(3500, 0, 8_847_927), (3600, 2, 1_152_073)]  # A demand that has just changed.
        samples = [self.row(*of) for of in rows]
        found = self.flows.moments(samples, 100 * MS)
        self.assertEqual([round(of.at_s * 1e3) for of in found], [500, 1100, 2150, 2300, 3500])
        worst = [round(max(of.errors) * 1e6) for of in found]
        self.assertEqual(worst, [0, 100_000, 0, 0, 0])
        counts = [(1, 0, 0, 0), (2, 0, 0, 0), (1, 0, 1, 0), (1, 0, 0, 1), (2, 1, 0, 0)]
        self.assertEqual([of[1:5] for of in found], counts)

    def test_goodput_is_compared_with_the_mean_share_of_the_second(self):
        half = [self.row(n * 50, 0, 10**7 if n < 30 else 5 * 10**6) for n in range(1, 41)]
        rates = [(0.5, 9e6), (1.5, 7e6), (2.5, 1.0)]
        run = types.SimpleNamespace(flow_rate=lambda name, step: rates)
        # The first second is too early, the third has no shares.
        (found,) = self.flows.achieved(half, run)
        self.assertEqual([int(of) for of in found], [7_000_000, 6_825_747])


if __name__ == "__main__":
    unittest.main()
