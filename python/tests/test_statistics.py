"""Statistics: intervals, paired comparison, comparison by the binary."""

import unittest

from kit import Case, nt, pair

from netarium import _statistics

# 97.5 % quantiles of Student's t distribution, from tables.
QUANTILES = {1: 12.706, 4: 2.776, 5: 2.571, 9: 2.262, 30: 2.042, 100: 1.984}


class Numbers(unittest.TestCase):
    def test_quantiles_are_those_of_the_tables(self):
        for freedom, expected in QUANTILES.items():
            self.assertAlmostEqual(_statistics.quantile(freedom), expected, delta=0.002)

    def test_interval_of_a_mean(self):
        # n = 4, mean 5, s = 2.5820, t = 3.1824: 5 ± 4.1085.
        found = nt.Interval.of([2, 4, 6, 8])
        self.assertEqual((found.n, found.mean), (4, 5))
        self.assertAlmostEqual(found.low, 0.8915, places=4)
        self.assertAlmostEqual(found.high, 9.1085, places=4)

    def test_needed_values_give_the_half_width(self):
        found = nt.Interval.of([2, 4, 6, 8])
        # 2.201 · 2.582 / √12 = 1.641; with 11 values 1.735.
        self.assertEqual(found.needed(1.7), 12)
        # 34 % of the mean of 5.
        self.assertEqual(found.needed("34 %"), 12)
        self.assertRaises(ValueError, nt.Interval.of([1]).needed, 1)
        with self.assertRaisesRegex(ValueError, 'for example "1 %"'):
            found.needed("1 ms")


class Sweeps(unittest.TestCase):
    """Two queues, each with three seeds."""

    columns = [("queue", "", str), ("seed", "", int), ("outcome", "", str)]
    columns += [("goodput", "bit/s", float), ("rare", "s", float), ("folder", "", str)]
    goodputs = {"short": (1.0, 2.0, 3.0), "long": (1.5, 2.5, 3.8)}
    rows = [
        (queue, seed, "passed", value, 7.0 if value == 3.8 else None, "")
        for queue, values in goodputs.items()
        for seed, value in enumerate(values)
    ]
    table = nt.Table.of("sweep", [nt.Column(*column) for column in columns], rows)

    def test_summary_has_a_row_for_each_combination_and_metric(self):
        found = nt.summary(self.table, "good*", precision=0.5)
        self.assertEqual(found.column("queue"), ["short", "long"])
        of = nt.Interval.of([1, 2, 3])
        expected = ("short", "goodput", "bit/s", *of, of.needed(0.5))
        self.assertEqual(tuple(found[0].values()), expected)
        long = self.table.where({"queue": "long"})
        self.assertEqual(nt.summary(long, "rare", "*").column("metric"), ["rare", "goodput"])
        every = nt.summary(self.table, precision="1 %")
        self.assertEqual([(row.queue, row.metric) for row in every][2:], [("long", "rare")])
        self.assertEqual((every[2].n, every[2].needed), (1, None))
        with self.assertRaisesRegex(ValueError, "no metric good; similar: .'goodput'"):
            nt.summary(self.table, "good")

    def test_text_of_a_summary_has_all_columns(self):
        found = nt.summary(self.table, precision=0.5)
        wide = [nt.Column("link.access.downstream.queue", "", str), *found.columns]
        table = nt.Table.of("summary", wide, [("200 packets", *row.values()) for row in found])
        lines = repr(table).splitlines()
        self.assertLessEqual(max(map(len, lines)), 80)
        upper, lower = "\n".join(lines[1:]).split("\n\n")
        heads = (upper + lower).replace(" [runs]", "").split()
        self.assertLessEqual({column.name for column in wide}, set(heads))
        for part in (upper, lower):
            numbers = [line.split()[0] for line in part.splitlines()[1:]]
            self.assertEqual(numbers, [str(number) for number in range(len(found))])

    def test_summary_of_zeros_has_no_needed_number(self):
        rows = [("short", seed, "passed", 0.0, None, "") for seed in range(3)]
        zeros = nt.Table.of("sweep", self.table.columns, rows)
        (row,) = nt.summary(zeros, precision="1 %")
        self.assertEqual((row.mean, row.needed), (0, None))

    def test_combinations_are_compared_by_pairs(self):
        short, long = (self.table.where({"queue": queue}) for queue in self.goodputs)
        # Differences of 0.5, 0.5 and 0.8.
        self.assertEqual(nt.paired(short, long, "goodput"), nt.Interval.of([0.5, 0.5, 3.8 - 3.0]))
        with self.assertRaisesRegex(ValueError, "seed 0 has several runs; .*where"):
            nt.paired(short, self.table, "goodput")
        with self.assertRaisesRegex(ValueError, "no seed has the metric none"):
            nt.paired(short, long, "none")
        self.assertRaises(KeyError, self.table.where, {"none": 1})
        with self.assertRaisesRegex(ValueError, "no row has .*'x'.*'short', 'long'"):
            self.table.where({"queue": "x"})


class Comparison(Case):
    def test_sets_are_compared_by_pairs_and_by_the_binary(self):
        net = pair()
        net.flow("a", "b", name="bulk", control="cubic", start={"jitter": "100 ms"})
        first = net.sim(seeds=4, duration="1 s")
        second = net.sim(seeds=4, duration="1 s", set={"link.core.rate": "20 Mbit/s"})
        metric = "flow.bulk.goodput.mean"
        found = nt.paired(first, second, metric)
        (row,) = nt.summary(first, metric)
        (expected,) = (row for row in first.metrics if row.metric == metric)
        for name in ("n", "mean", "sd", "low", "high"):
            self.assertAlmostEqual(row[name] / expected[name], 1, places=5)
        self.assertEqual(found.n, 4)
        values = [[run.metrics[metric].value for run in s.runs] for s in (first, second)]
        self.assertAlmostEqual(found.mean, sum(b - a for a, b in zip(*values)) / 4, places=3)
        self.assertGreater(found.low, 0)
        with self.assertRaisesRegex(ValueError, "no seed has the metric none"):
            nt.paired(first, second, "none")
        for tolerances in ((), ("1 %",)):
            (row,) = nt.diff(first, second, metrics=[metric], tolerances=tolerances)
            self.assertEqual((row.metric, row.unit, row.changed), (metric, "bit/s", True))
            self.assertAlmostEqual(row.second - row.first, found.mean, places=3)
            self.assertLess(row.low, row.second - row.first)
        with self.assertRaisesRegex(nt.LabError, "none"):
            nt.diff(first.runs[0], second.runs[0].folder, metrics=["none"])


if __name__ == "__main__":
    unittest.main()
