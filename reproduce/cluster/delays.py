# %% [markdown]
"""# Agreeing on shares: delays
The time from a change of the flows until all shares are within 1 % of the exact ones.
"""

# %%
from netarium_papers import Evidence, Stage, cdf, figure, quantile
from netarium_papers.cluster.agreement import NOTE, SHARINGS, Load, measured

# Agents and flows.
SIZES, SHORT_SIZES = ((8, 200), (8, 1_000), (32, 1_000)), ((2, 40), (4, 60), (8, 60))
CHANGES, SHORT_CHANGES = 200, 20
# The median with notices; the mean of the paper was 7.36 ms.
MAX_MEDIAN_MS = 2
# The time after which shares are right in 99 % of the cases.
MAX_CLAIMS_MS = 100
# What a plot can show.
MIN_MS, MAX_MS = 0.1, 60e3


@figure("delays", "time from a change until all shares are within 1 % of the oracle's", "2 min")
def delays_of_changes(stage: Stage) -> None:
    sizes, changes = stage.size(SIZES, SHORT_SIZES), stage.size(CHANGES, SHORT_CHANGES)
    plot = stage.plot(
        "Changes one by one",
        "ms until all shares are right",
        "% of changes",
        log="x",
        ylim=(None, 100),
    )
    heads = ["", "median ms", "p90 ms", "p99 ms", "most ms"]
    table = stage.table("From a change until all shares are right", heads)
    loads = [Load(agents, flows, changes) for agents, flows in sizes]
    names = [(name, load) for load in loads for name in SHARINGS]
    for (name, load), found in zip(names, measured(stage, loads, "--delays")):
        delays = [min(max(ns / 1e9 * 1e3, MIN_MS), MAX_MS) for ns in found["delays_ns"]]
        what = f"{name}, {load.agents} machines, {load.flows} flows"
        table.row(what, *(f"{quantile(delays, share):.1f}" for share in (0.5, 0.9, 0.99, 1.0)))
        plot.line(what, cdf(delays))
        claim(stage, what, name == "notices", delays)
    stage.note(NOTE)


def claim(evidence: Evidence, what: str, is_notices: bool, delays: list[float]) -> None:
    median = quantile(delays, 0.5)
    if is_notices:
        evidence.claim(
            what,
            "SplayNet: notices took 7.36 ms in the mean (150 nodes, 60 machines)",
            f"{median:.1f} ms in the median, {max(delays):.1f} ms at most",
            median <= MAX_MEDIAN_MS,
        )
        return
    within = sum(delay <= MAX_CLAIMS_MS for delay in delays) / len(delays)
    evidence.claim(
        what,
        f"not published (expected: right after {MAX_CLAIMS_MS} ms, 99 % of the time)",
        f"{median:.1f} ms in the median, {within * 100:.1f} % within",
        within >= 0.99,
    )


# %%
if __name__ == "__main__":
    delays_of_changes.main()
