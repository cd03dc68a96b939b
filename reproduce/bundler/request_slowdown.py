# %% [markdown]
"""# Bundler, figure 7
Slowdown of requests at 84 of 96 Mbit/s, by the scheduler and its place: sendbox or bottleneck.

The bottleneck is a FIFO whose delay CoDel limits to about 100 ms, and responses use Cubic with
initial windows of 10 segments, as in the paper's configurations. The paper does not explain its
99th percentiles of 27 to 79: 1 % of the requests are above 76 kB, and with fair queueing in the
network such a request takes three or four RTTs.
"""

# %%
import math
from typing import Sequence

from netarium_papers import Run, Stage
from netarium_papers.bundler import BOTTLENECK_MBITS, wall_check
from netarium_papers.bundler.cases import BUNDLER, STATUS_QUO, cell, run_cases, times
from netarium_papers.bundler.slowdown import CLASSES, DEFINITION, SMALL, Requests
from netarium_papers.bundler.timeline import goodput_mbits, mean, queue_ms

LAB = "bundler/requests.toml"
FIFO = {"bundle.site.scheduler": '{ kind = "droptail", limit = "1250 packets" }'}
# Not possible in the Internet: the bottleneck schedules the flows of the site.
NETWORK = {"link.bottleneck.queue": '{ kind = "sfq", limit = "1200 packets" }'}
CASES = (
    STATUS_QUO,
    BUNDLER.set({}, label="Bundler, SFQ"),
    BUNDLER.set(FIFO, "fifo", "Bundler, FIFO"),
    STATUS_QUO.set(NETWORK, "in-network", "fair queueing in the network"),
)
# The paper's median, 99th percentile and medians of the classes.
PRINTED = (
    (1.76, 79.4, 1.70, 4.53, 9.8),
    (1.26, 41.4, 1.25, 3.41, 6.7),
    (2.13, math.nan, 2.09, 5.27, 8.7),
    (1.07, 27.5, 1.07, 2.90, 4.3),
)
WALL_SEED = 4  # Offers about the wanted load in the first minute, as few seeds do.


def check(stage: Stage) -> None:
    seconds = stage.size(60, 20)

    def read(run: Run) -> list[float]:
        requests = Requests.read([run])
        queue = mean(queue_ms(run, BOTTLENECK_MBITS), 5, seconds)
        goodput = goodput_mbits(run, "requests", 0, seconds)
        return [*map(requests.median, CLASSES), requests.quantile(0.99), queue, goodput]

    heads = ["median", *(of.label for of in CLASSES[1:]), "99 %", "queue, ms", "Mbit/s"]
    checked = wall_check.run_both_clocks(stage, LAB, seconds, heads, read, WALL_SEED)
    found = [(of.label, Requests.read([of.run])) for of in checked]
    plot(stage, "Slowdown of requests (wall clock)", found)
    ratios = [ours / quo for quo, ours in zip(checked[0].values, checked[1].values)]
    what = "Bundler with SFQ over status quo"
    wall_check.claim(stage, f"median slowdown, {what}", "0.72 ×", ratios[0], 0, 0.9)
    wall_check.claim(stage, f"99th percentile, {what}", "0.52 ×", ratios[4], 0, 0.9)
    wall_check.claim(stage, f"goodput, {what}", "the same", ratios[6], 0.9, 1.1)


@wall_check.checked_figure(
    "requests", "figure 7: slowdown of requests at 84 of 96 Mbit/s", "6 min", check
)
def request_slowdown(stage: Stage) -> None:
    sized = {"flow.requests.count": stage.size(100_000, 20_000)}
    runs = run_cases(stage, LAB, [case.set(sized) for case in CASES], stage.size(10, 3))
    found = [Requests.read(of) for of in runs]
    plot(stage, "Slowdown of requests", [(case.label, of) for case, of in zip(CASES, found)])
    stage.plots[-1].note = "Dots are the paper's medians and 99th percentiles."
    for case, (median, tail, *_) in zip(CASES, PRINTED):
        stage.plots[-1].line(f"{case.label} (paper)", [(median, 50), (tail, 99)], style="dots")
    heads = ["", "median", "by seed", "99 %", "up to 10 kB", "its 75 %", "10 kB to 1 MB"]
    table = stage.table("Slowdown, the paper's / ours; classes are medians", [*heads, "above 1 MB"])
    for case, (median, tail, *printed), of in zip(CASES, PRINTED, found):
        seeds = of.medians()
        cells = [cell(paper, of.median(sizes)) for paper, sizes in zip(printed, CLASSES[1:])]
        quartile = f"{of.quantile(0.75, SMALL):.2f}"
        by_seed = f"{min(seeds):.2f} to {max(seeds):.2f}"
        tails = cell(tail, of.quantile(0.99))
        medians = cell(median, of.median())
        table.row(case.label, medians, by_seed, tails, cells[0], quartile, *cells[1:])
    claims(stage, found)
    stage.note(DEFINITION)


def plot(stage: Stage, title: str, found: Sequence[tuple[str, Requests]]) -> None:
    y = "% of requests"
    shown = stage.plot(title, "slowdown", y, log="x", xlim=(1, 100), ylim=(None, 100))
    for label, requests in found:
        shown.line(label, requests.distribution())


def claims(stage: Stage, found: Sequence[Requests]) -> None:
    quo, sfq, fifo, network = (of.median() for of in found)
    if not stage.short:
        # The seeds of the paper are unknown: the few largest responses determine their load.
        what, is_near = "median slowdown, status quo", abs(quo / PRINTED[0][0] - 1) <= 0.25
        stage.claim(what, "1.76 (here: within 25 %)", f"{quo:.2f}", is_near)
    is_near = abs(network / PRINTED[3][0] - 1) <= 0.1
    what = "median slowdown, fair queueing in the network"
    stage.claim(what, "1.07 (here: within 10 %)", f"{network:.2f}", is_near)
    what, ratio = "median slowdown, Bundler with SFQ over status quo", sfq / quo
    ours = f"{times(ratio)}: {sfq:.2f} over {quo:.2f}"
    stage.expect(what, "0.72 ×", ratio, "at most 0.75 ×", ours)
    before, after = (of.quantile(0.99) for of in found[:2])
    what, ratio = "99th percentile, Bundler with SFQ over status quo", after / before
    ours = f"{times(ratio)}: {after:.1f} over {before:.1f}"
    stage.expect(what, "0.52 ×", ratio, "at most 0.6 ×", ours)
    for sizes in CLASSES:
        ratio = found[1].median(sizes) / found[0].median(sizes)
        what = f"median slowdown of responses ({sizes.label}), Bundler over status quo"
        stage.expect(what, "no class is worse", ratio, "at most 1.05 ×")
    what, paper = "median slowdown, Bundler with a FIFO over status quo", "scheduling is what helps"
    ours = f"{times(fifo / quo)}: {fifo:.2f} over {quo:.2f}"
    stage.expect(what, f"1.21 ×: {paper}", fifo / quo, "at least 0.97 ×", ours)


# %%
if __name__ == "__main__":
    request_slowdown.main()
