"""Figures of agreeing on shares: claims of made-up costs."""

import unittest

from netarium_papers import Evidence
from netarium_papers.cluster import agents, delays, flows
from netarium_papers.cluster.agreement import HEADER_BYTES, Load, Row, show


def row(agents=8, flows=100, notices=1000.0, claims=1000.0):
    """The costs of a load with a message of each sharing in 1 s, and these bytes of payload."""
    return Row(Load(agents, flows, 20), (1.0, 1.0), (notices, claims))


def verdicts(claims, *args):
    evidence = Evidence()
    claims(evidence, *args)
    return [claim.holds for claim in evidence.claims]


class Claims(unittest.TestCase):
    def test_headers_count_against_the_limit_of_kollaps(self):
        limit = agents.KOLLAPS / 4 - HEADER_BYTES
        rows = [row(agents=4, notices=limit - 1, claims=limit)]
        self.assertEqual(verdicts(agents.claims, rows, rows), [True, False, True])

    def test_notices_must_grow_with_the_lab(self):
        for bytes_of_last, expected in ((2001.0, True), (2000.0, False)):
            rows = [row(agents=4), row(agents=16, notices=bytes_of_last)]
            self.assertEqual(verdicts(agents.claims, rows, rows)[-1], expected)

    def test_cost_must_not_grow_as_flows_do(self):
        few = row()
        for notices, claims, expected in ((2000, 1999, True), (2001, 2000, False)):
            many = row(flows=400, notices=notices, claims=claims)
            self.assertEqual(verdicts(flows.claims, [few, many]), [expected] * 2)

    def test_median_of_notices_and_quantile_of_claims_decide(self):
        for value, expected in ((2.0, True), (2.1, False)):
            self.assertEqual(verdicts(delays.claim, "", True, [0.1, value, 90.0]), [expected])
        for late, expected in ((1, True), (2, False)):
            found = [100.0] * (100 - late) + [101.0] * late
            self.assertEqual(verdicts(delays.claim, "", False, found), [expected])

    def test_plots_omit_agents_without_messages(self):
        evidence = Evidence()
        show(evidence, "", "machines", [row(agents=1, notices=0.0), row(agents=2)], "agents")
        lines = [line["points"] for line in evidence.plots[0].lines]
        self.assertEqual(lines, [[(2, 1000)], [(1, 1000), (2, 1000)]])
        cells = ["1", "100", "20", "1", "0", "108", "1", "1000", "1108"]
        self.assertEqual(evidence.tables[0].rows[0], cells)


if __name__ == "__main__":
    unittest.main()
