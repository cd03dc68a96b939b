"""Figure 3.4 of SplayNet: waits, and claims about their medians."""

import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "reproduce"), str(ROOT / "python")]

try:
    from netarium_papers import Evidence
    from netarium_papers.splaynet import fig_3_4
except ImportError as error:
    raise unittest.SkipTest(f"{error.name} is not installed") from None


class Timers(unittest.TestCase):
    def test_claims_are_about_medians_of_lengths_above_0(self) -> None:
        late = {0: 9000.0, 1000: 0.02, 100_000: 40.0}
        waits = {
            (way, us): [factor * late.get(us, 0.09)] * 4
            for way, factor in (("sleep", 500), ("hybrid", 1), ("spin", 2))
            for us in fig_3_4.LENGTHS_US
        }
        evidence = Evidence()
        fig_3_4.claims("ordinary", waits, evidence)
        self.assertEqual([claim.holds for claim in evidence.claims], [True, False])
        ours = "median 0.09 µs (worst length 40.0), mean 4.1 µs, p99 40.0 µs"
        self.assertEqual(evidence.claims[0].ours, ours)
        fig_3_4.show("ordinary", waits, evidence)
        self.assertIn("; 450 times", evidence.notes[0])
        lines = evidence.plots[0].lines
        self.assertEqual((len(lines), lines[0]["points"][3]), (7, (1.0, 10.0)))
        self.assertEqual(evidence.tables[0].rows[0][:4], ["sleep", "0 ns", "4", "4500000"])


if __name__ == "__main__":
    unittest.main()
