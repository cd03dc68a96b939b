# %% [markdown]
"""# Bundler, figure 9
Requests of the site beside requests of other sites, which pass no gateway.
"""

# %%
import math
from typing import Any, Mapping

from netarium_papers import Stage, figure
from netarium_papers.bundler.cases import cell, load_share, plot_beside_paper, run_pairs, times
from netarium_papers.bundler.slowdown import DEFINITION, SMALL, Requests

# The paper's third quartiles of small requests, status quo and Bundler, where it prints them.
Paper = tuple[float, float] | None
# By cross traffic in Mbit/s.
LOADS: Mapping[int, Paper] = {
    **{load: None for load in (6, 12, 30, 36)},
    **{18: (1.53, 1.22), 24: (2.03, 1.29), 42: (2.26, 1.32)},
}
LOADED = 24  # From this load on there is a queue.
MEDIAN = "at most 0.1"  # Limit of the increase of the median.


def compare_loads(
    stage: Stage,
    lab: str,
    settings: Mapping[int, Mapping[str, Any]],
    paper: Mapping[int, Paper],
    title: str,
    labels: tuple[str, str, str],
) -> list[tuple[int, list[float], list[float]]]:
    """Adds a table and a plot of the slowdown of small requests by load in Mbit/s.

    `labels` are the head of the column of loads, the title of the plot and its x axis. Returns
    load, third quartiles and medians of status quo and Bundler.
    """
    by_name = {str(load): values for load, values in settings.items()}
    pairs = run_pairs(stage, lab, by_name, stage.size(10, 3))
    head, plot_title, x = labels
    heads = [head, "status quo", "Bundler", "status quo, 50 %", "Bundler"]
    table, found = stage.table(title, heads), []
    for load, pair in zip(settings, pairs):
        requests = [Requests.read(runs) for runs in pair]
        quartiles = [of.quantile(0.75, SMALL) for of in requests]
        medians = [of.median(SMALL) for of in requests]
        cells = map(cell, paper[load] or (math.nan, math.nan), quartiles)
        table.row(load, *cells, *(f"{median:.2f}" for median in medians))
        found.append((load, quartiles, medians))
    rows = [(load, quartiles, paper[load]) for load, quartiles, _ in found]
    plot_beside_paper(stage, plot_title, x, "third quartile", rows, 1)
    stage.note(DEFINITION)
    return found


@figure(
    "short-cross",
    "figure 9: the site's requests beside requests that pass no box",
    "4 min",
    "virtual",
)
def short_cross(stage: Stage) -> None:
    duration = stage.size("120 s", "30 s")
    settings = {
        load: {"flow.cross.arrivals.load": load_share(load), "lab.duration": duration}
        for load, paper in sorted(LOADS.items())
        if paper or not stage.short
    }
    title = (
        "Slowdown of the site's responses up to 10 kB: third quartiles (the paper's / ours) and "
        "medians"
    )
    labels = ("cross traffic, Mbit/s", "Requests beside others", "cross traffic in Mbit/s")
    lab = "bundler/short-cross.toml"
    for load, quartiles, medians in compare_loads(stage, lab, settings, LOADS, title, labels):
        if load >= LOADED:
            claim_quartile(stage, load, quartiles[1] / quartiles[0])
        increase, what = medians[1] - medians[0], f"median beside {load} Mbit/s"
        what = f"{what}, Bundler less status quo"
        stage.expect(what, "0.06 at most", increase, MEDIAN, f"{increase:.2f}")


def claim_quartile(stage: Stage, load: int, ratio: float) -> None:
    """At least 50 % of the paper's improvement; where it prints none, 20 %."""
    quo, ours = LOADS[load] or (1, 0.6)
    limit = (1 + ours / quo) / 2
    expected = f"(here: at most {times(limit)})"
    paper = f"{times(ours / quo)} {expected}" if LOADS[load] else expected
    what = f"third quartile beside {load} Mbit/s, Bundler over status quo"
    stage.claim(what, paper, times(ratio), ratio <= limit)


# %%
if __name__ == "__main__":
    short_cross.main()
