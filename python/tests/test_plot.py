"""Plots, with a table of samples that is made here."""

import unittest
from types import SimpleNamespace

from kit import nt

from netarium import _plot

COLUMNS = [nt.Column(name, "ns", int) for name in ("time_ns", "interval_ns", "rtt_ns")]
COLUMNS += [nt.Column("flow", "", str), nt.Column("received_bytes", "B", int)]
STEP = 100_000_000
# 125 kB in 100 ms are 10 Mbit/s; the interval from 0.2 s to 0.4 s is omitted.
ROWS = [(end * STEP, STEP, None if end == 1 else 5_000_000, "bulk", 125_000) for end in (1, 2, 5)]
# The run ends at the end of an interval.
ROWS.append((5 * STEP, 0, None, "bulk", 0))
FLOWS = nt.Table.of("flows", COLUMNS, ROWS)


def flow(row: nt.Row) -> str:
    return str(row.flow)


class Series(unittest.TestCase):
    def test_omitted_intervals_of_a_rate_are_idle(self):
        found = _plot.series(FLOWS, flow, _plot.rate("received_bytes"), 0)
        times, rates = found["bulk"]
        self.assertEqual(rates, [10, 10, 0, 0, 10])
        self.assertEqual([round(time, 6) for time in times], [0.1, 0.2, 0.3, 0.4, 0.5])

    def test_values_that_were_not_measured_are_omitted(self):
        found = _plot.series(FLOWS, flow, _plot.scaled("rtt_ns", 1e-6), None)
        self.assertEqual(found["bulk"], ([0.2, 0.5], [5, 5]))

    def test_plot_has_a_line_for_each_flow_and_units(self):
        try:
            import matplotlib
        except ImportError:
            self.skipTest("matplotlib is not installed")
        matplotlib.use("agg")
        ax = _plot.Plot(SimpleNamespace(flows=FLOWS, name="kv")).goodput(by="flow")
        self.assertEqual([line.get_label() for line in ax.get_lines()], ["bulk"])
        self.assertEqual((ax.get_xlabel(), ax.get_ylabel()), ("time [s]", "goodput [Mbit/s]"))


if __name__ == "__main__":
    unittest.main()
