# %% [markdown]
"""# Bundler, section 7.2
Slowdown of requests by load: without a queue Bundler has no effect.
"""

# %%
from typing import Mapping

from netarium_papers import Stage, figure
from netarium_papers.bundler.cases import load_share, times
from netarium_papers.bundler.short_cross import Paper, compare_loads

# By load in Mbit/s.
LOADS: Mapping[int, Paper] = {
    **{load: None for load in (12, 24, 36)},
    **{48: (1.55, 1.26), 60: (2.02, 1.32), 72: (2.29, 1.38), 84: (2.53, 1.42), 96: (2.67, 1.43)},
}
# Up to IDLE Bundler has no effect; from LOADED on the ratio is below 1.
IDLE, LOADED = 36, 60


@figure("load", "slowdown of requests by load, 12 to 96 of 96 Mbit/s", "6 min", "virtual")
def load_sweep(stage: Stage) -> None:
    # The number of requests is proportional to the load: the same time at each load.
    count = stage.size(1000, 200)
    settings = {
        load: {"flow.requests.arrivals.load": load_share(load), "flow.requests.count": count * load}
        for load in stage.size(tuple(LOADS), (12, 48, 84))
    }
    title = "Slowdown of responses up to 10 kB: third quartiles (the paper's / ours) and medians"
    labels = ("load, Mbit/s", "Requests by load", "load in Mbit/s")
    lab = "bundler/requests.toml"
    for load, quartiles, _ in compare_loads(stage, lab, settings, LOADS, title, labels):
        paper, ratio = LOADS[load], quartiles[1] / quartiles[0]
        what = f"third quartile at {load} Mbit/s, Bundler over status quo"
        if load <= IDLE:
            stage.expect(what, "no effect", ratio, "at most 1.1 ×")
        elif load >= LOADED:
            printed = times(paper[1] / paper[0]) if paper else "below 1 ×"
            stage.claim(what, printed, times(ratio), ratio < 1)


# %%
if __name__ == "__main__":
    load_sweep.main()
