# %% [markdown]
"""# Bundler, figure 11
Two bundles share a bottleneck: requests and a backlogged flow in each.
"""

# %%
from typing import Sequence

from netarium_papers import Run, Stage
from netarium_papers.bundler import BOTTLENECK_MBITS, wall_check
from netarium_papers.bundler.cases import BUNDLER, Case, average, cell, load_share, run_pairs
from netarium_papers.bundler.slowdown import DEFINITION, Requests
from netarium_papers.bundler.timeline import goodput_mbits, mean, queue_ms

LAB = "bundler/two-bundles.toml"
OBSERVE = {"bundle.first.mode": "observe", "bundle.second.mode": "observe"}
CASES = (Case("status-quo", "status quo", OBSERVE), BUNDLER)
# Loads of requests in Mbit/s, and the paper's medians of both bundles: status quo, Bundler.
SPLITS = {(42, 42): ((3.06, 3.07), (1.17, 1.16)), (56, 28): ((3.05, 2.85), (1.18, 1.13))}
MEDIAN = "at most 1.4 both"
# The ratio of throughputs over that of the offered loads is between this and its inverse.
SHARE = 0.67
SETTLED_S = 10


def read(runs: Sequence[Run], seconds: float) -> list[float]:
    """Median slowdown and throughput in Mbit/s of each bundle; queue at the bottleneck in ms."""
    rates = [
        average(runs, lambda run: goodput_mbits(run, f"{flow}{number}", SETTLED_S, seconds))
        for number in (1, 2)
        for flow in ("requests", "bulk")
    ]
    queue = average(runs, lambda run: mean(queue_ms(run, BOTTLENECK_MBITS), SETTLED_S, seconds))
    medians = [Requests.read(runs, f"requests{number}").median() for number in (1, 2)]
    return [*medians, rates[0] + rates[1], rates[2] + rates[3], queue]


def check(stage: Stage) -> None:
    seconds = stage.size(60, 25)
    heads = ["first, median", "second", "first, Mbit/s", "second", "queue, ms"]
    checked = wall_check.run_both_clocks(
        stage, LAB, seconds, heads, lambda run: read([run], seconds), cases=CASES
    )
    wall_check.plot_queues(stage, checked)
    quo, ours = (of.values for of in checked)
    for at, which in enumerate(("first", "second")):
        what = f"median slowdown of the {which} bundle over status quo"
        wall_check.claim(stage, what, "0.38 ×", ours[at] / quo[at], 0, 0.8)
    what = "ratio of the bundles' throughputs"
    wall_check.claim(stage, what, "not in the paper", ours[2] / ours[3], 0.4, 2.5)


@wall_check.checked_figure(
    "two-bundles",
    "figure 11: two bundles at one bottleneck, requests and a backlogged flow in each",
    "4 min",
    check,
)
def two_bundles(stage: Stage) -> None:
    seconds = stage.size(120, 40)
    settings = {
        str(first): {
            "flow.requests1.arrivals.load": load_share(first),
            "flow.requests2.arrivals.load": load_share(second),
            # Shares are as loads: each unit of weight counts as a bundle.
            "bundle.first.weight": f"{first / second:g}",
            "lab.duration": f"{seconds} s",
        }
        for first, second in SPLITS
    }
    pairs = run_pairs(stage, LAB, settings, stage.size(10, 3), cases=CASES)
    table = stage.table(
        "Median slowdown of each bundle's requests, the paper's / ours; throughput of requests and "
        "backlogged flow together; mean queue at the bottleneck",
        ["offered", "boxes", "first, median", "second", "Mbit/s", "ratio", "queue, ms"],
    )
    for (loads, printed), pair in zip(SPLITS.items(), pairs):
        for case, paper, runs in zip(CASES, printed, pair):
            *medians, rate1, rate2, queue = read(runs, seconds)
            offered, rates = f"{loads[0]} + {loads[1]} Mbit/s", f"{rate1:.1f}, {rate2:.1f}"
            cells = map(cell, paper, medians)
            table.row(offered, case.label, *cells, rates, f"{rate1 / rate2:.2f}", f"{queue:.1f}")
        # The last case is Bundler.
        which = f"{loads[0]} and {loads[1]} Mbit/s offered"
        printed_medians, ours = (f"{of[0]:.2f} and {of[1]:.2f}" for of in (paper, medians))
        what = f"median slowdowns with Bundler, {which}"
        stage.expect(what, printed_medians, max(medians), MEDIAN, ours)
        relative = rate1 / rate2 / (loads[0] / loads[1])
        stage.claim(
            f"ratio of the bundles' throughputs over that of their loads, {which}",
            f"not in the paper (expected: {SHARE} to {1 / SHARE:.1f})",
            f"{relative:.2f}",
            SHARE <= relative <= 1 / SHARE,
        )
    stage.note(DEFINITION)


# %%
if __name__ == "__main__":
    two_bundles.main()
