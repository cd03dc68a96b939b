# %% [markdown]
"""# Bundler, section 8
Paths from a region of a cloud to five others: RTTs of small requests beside bulk data.

Rates are 5 % of the paper's 2 to 4 Gbit/s; queues (60 to 80 ms) and delays are the same. The base
of a loop is its RTT on an empty path. Medians and quartiles of loops pool the seeds of a loop;
“pooled” is one median over all samples of all paths, as in the paper's 57 %, to which fast loops
contribute more samples. Throughput is mean goodput; the paper's ratio of the 99th percentiles of 1
s rates is beside it.
"""

# %%
from typing import NamedTuple, Sequence

from netarium_papers import Run, Stage, quantile
from netarium_papers.bundler import wall_check
from netarium_papers.bundler.cases import Case, average, run_cases
from netarium_papers.bundler.timeline import goodput_mbits

LAB = "bundler/internet.toml"
LOOPS = range(10)
SETTLED_S = 10  # Bulk data has found its rate.
MEDIAN_MS = 6  # Limit of the median of a loop with Bundler above its base.
QUEUED_MS = 30  # A third quartile that is this much above the base shows a queue.
LABELS = ("base", "status quo", "Bundler")


class Region(NamedTuple):
    """A path, and what the paper prints of it in ms: base, status quo and Bundler.

    These are medians of the medians of the loops; `quartile` is the maximum with Bundler.
    """

    name: str
    label: str
    mbits: int
    printed: tuple[float, float, float]
    quartile: float


REGIONS = (
    Region("belgium", "Belgium", 100, (99.1, 148.4, 100.2), 110),
    Region("frankfurt", "Frankfurt", 150, (106.0, 109.8, 106.3), 111),
    Region("oregon", "Oregon", 200, (33.8, 35.9, 35.9), 40),
    Region("carolina", "South Carolina", 200, (33.5, 57.4, 34.3), 39),
    Region("tokyo", "Tokyo", 100, (124.0, 124.3, 123.1), 128),
)


class Measured(NamedTuple):
    """RTTs in ms by case and loop; mean and 99th percentile of the bulk rate by case, in Mbit/s."""

    loops: list[list[list[float]]]
    mean: list[float]
    peak: list[float]

    def excess(self, case: int, share: float) -> list[float]:
        """The quantile of each loop minus the median of its base."""
        pairs = zip(quantiles(self.loops[case], share), quantiles(self.loops[0]))
        return [value - base for value, base in pairs]


def quantiles(loops: Sequence[Sequence[float]], share: float = 0.5) -> list[float]:
    return [quantile(rtts, share) for rtts in loops]


def cases_of(stage: Stage, place: str) -> list[Case]:
    """Base, status quo and Bundler with the bottleneck at a place: `egress` or `middle`."""
    duration, late = stage.size(("70 s", "69.9 s"), ("25 s", "24.9 s"))
    settings = {"lab.duration": duration}
    for region in REGIONS if place == "middle" else ():
        settings[f"link.egress-{region.name}.rate"] = "10 Gbit/s"
        settings[f"link.middle-{region.name}.rate"] = f"{region.mbits} Mbit/s"
    observe = {f"bundle.{region.name}.mode": "observe" for region in REGIONS}
    idle = {f"flow.bulk-{region.name}.start": late for region in REGIONS}
    return [
        Case(f"base-{place}", "base", {**settings, **observe, **idle}),
        Case(f"status-quo-{place}", "status quo", {**settings, **observe}),
        Case(f"bundler-{place}", "Bundler", settings),
    ]


def loop_ms(run: Run, flow: str) -> list[float]:
    """RTTs of a loop in ms without those of the start-up, which are the first."""
    rtts = run.round_trips(flow)
    skip = int(len(rtts) * (SETTLED_S / max(sum(rtts), SETTLED_S)))
    return [rtt_s * 1e3 for rtt_s in rtts[skip:]]


def measured(runs: Sequence[Sequence[Run]], region: str) -> Measured:
    bulk = f"bulk-{region}"
    rates = [[pair for run in of for pair in run.flow_rate(bulk, 1)] for of in runs]
    settled = [[rate / 1e6 for at, rate in of if at > SETTLED_S] for of in rates]
    flows = [f"loop-{region}-{number}" for number in LOOPS]
    return Measured(
        [[[ms for run in of for ms in loop_ms(run, flow)] for flow in flows] for of in runs],
        [average(of, lambda run: goodput_mbits(run, bulk, SETTLED_S)) for of in runs],
        quantiles(settled, 0.99),
    )


def check(stage: Stage) -> None:
    """The first path alone."""
    seconds, (region, *others) = stage.size(40, 25), REGIONS
    never = f"{seconds - 0.1:g} s"
    unused = [f"bulk-{other.name}" for other in others]
    unused += [f"loop-{other.name}-{number}" for other in others for number in LOOPS]
    idle = {f"flow.{flow}.start": never for flow in unused}
    base, *loaded = (case.set(idle) for case in cases_of(stage, "egress"))
    cases = [base.set({f"flow.bulk-{region.name}.start": never}), *loaded]

    def read(run: Run) -> list[float]:
        (loops,), (rate,), _ = measured([[run]], region.name)
        return [quantile(quantiles(loops), 0.5), max(quantiles(loops, 0.75)), rate]

    heads = ["median of the loops' medians, ms", "worst 75 %", "Mbit/s beside them"]
    checked = wall_check.run_both_clocks(stage, LAB, seconds, heads, read, cases=cases)
    wall_check.plot_queues(stage, checked[1:], region.mbits, f"egress-{region.name}")
    empty, quo, ours = (of.values for of in checked)
    above = ours[0] - empty[0]
    what = "Belgium: median above the base in ms"
    wall_check.claim(stage, what, "1.1", above, -MEDIAN_MS, 2 * MEDIAN_MS)
    what = "Belgium: share of the status quo's that is left"
    wall_check.claim(stage, what, "0.02", above / (quo[0] - empty[0]), -0.5, 0.5)
    what = "Belgium: throughput over status quo"
    wall_check.claim(stage, what, "within 1 %", ours[2] / quo[2], 0.93)


@wall_check.checked_figure(
    "internet",
    "real Internet paths: round trips of small requests beside bulk data, five regions",
    "10 min",
    check,
)
def internet(stage: Stage) -> None:
    for place, label in (("egress", "at the cloud's egress"), ("middle", "in the middle")):
        runs = run_cases(stage, LAB, cases_of(stage, place), 3)
        found = [measured(runs, region.name) for region in REGIONS]
        tabulate(stage, found, label)
        plot(stage, found, label)
        for region, of in zip(REGIONS, found):
            claims(stage, region, of, f"{region.label}, bottleneck {label}")
        pooled = ([rtt for of in found for rtts in of.loops[at] for rtt in rtts] for at in range(3))
        base, quo, ours = quantiles(list(pooled))
        less = (1 - ours / quo) * 100
        stage.claim(
            f"pooled median of all round trips, bottleneck {label}",
            "57 % less (here: below status quo)",
            f"{less:.0f} % less: {quo:.1f} to {ours:.1f} ms, base {base:.1f} ms",
            ours < quo,
        )


def tabulate(stage: Stage, found: Sequence[Measured], place: str) -> None:
    heads = ["path", *LABELS, "its worst 75 %", "worst above base, 50 % and 75 %", "Mbit/s"]
    table = stage.table(
        f"Bottleneck {place}: median of the loops' median round trips in ms, the paper's / ours; "
        "goodput beside them, status quo and Bundler",
        [*heads, "ratio{:.3f}", "of peaks{:.3f}"],
    )
    for region, of in zip(REGIONS, found):
        medians = (quantile(quantiles(loops), 0.5) for loops in of.loops)
        above = (max(of.excess(2, share)) for share in (0.5, 0.75))
        cells = [f"{printed:.1f} / {ours:.1f}" for printed, ours in zip(region.printed, medians)]
        cells.append(f"{region.quartile} / {max(quantiles(of.loops[2], 0.75)):.1f}")
        cells.append(", ".join(f"{ms:.1f}" for ms in above))
        ratios = (of.mean[2] / of.mean[1], of.peak[2] / of.peak[1])
        table.row(region.label, *cells, f"{of.mean[1]:.1f}, {of.mean[2]:.1f}", *ratios)


def plot(stage: Stage, found: Sequence[Measured], place: str) -> None:
    title = f"Round trips of each loop, bottleneck {place}"
    x = "loop: ten each of Belgium, Frankfurt, Oregon, South Carolina, Tokyo"
    note = "Medians; the bands are from the first to the third quartile."
    shown = stage.plot(title, x, "round trip in ms", ylim=(0, None), note=note)
    for case, label in enumerate(LABELS):
        loops = [rtts for of in found for rtts in of.loops[case]]
        bands = list(zip(quantiles(loops, 0.25), quantiles(loops, 0.75)))
        shown.line(label, list(enumerate(quantiles(loops), 1)), spread=bands)
    for case, label in enumerate(LABELS):
        points = [(5.5 + 10 * at, region.printed[case]) for at, region in enumerate(REGIONS)]
        shown.line(f"{label} (paper)", points, style="dots")


def claims(stage: Stage, region: Region, of: Measured, which: str) -> None:
    base, quo, ours = region.printed
    for name, share, limit, paper in (
        ("median", 0.5, MEDIAN_MS, ours - base),
        ("third quartile", 0.75, 8, region.quartile - base),
    ):
        highest, before = max(of.excess(2, share)), max(of.excess(1, share))
        what, text = f"worst loop's {name} over its base, {which}", f"about {paper:.0f} ms"
        value = f"{highest:.1f} ms; status quo {before:.1f} ms"
        stage.expect(what, text, highest, f"at most {limit} ms", value)
    queued = sum(value >= QUEUED_MS for value in of.excess(1, 0.75))
    stage.claim(
        f"loops that queue in the status quo, {which}",
        f"half or more; {quo - base:.0f} ms in their median",
        f"{queued} of {len(LOOPS)} by {QUEUED_MS} ms or more",
        queued * 2 >= len(LOOPS),
    )
    what, ratio = f"throughput over status quo, {which}", of.mean[2] / of.mean[1]
    stage.expect(what, "1.00 × of peaks", ratio, "at least 0.97 × in the mean")


# %%
if __name__ == "__main__":
    internet.main()
