# %% [markdown]
"""# MCTCP: schedulers
Question of the paper's outlook: which scheduler reorders least, and what does that cost?
"""

# %%
import math

from netarium_papers import Run, Stage, figure, quantile
from netarium_papers.mctcp import WINDOW
from netarium_papers.mctcp.grid import PATHS, Case, Grid
from netarium_papers.mctcp.stream import (
    BULK,
    END,
    gap,
    goodput,
    number,
    ratio,
    reinjected,
    reordered_kb,
)

TITLE = "outlook: which scheduler reorders least, on equal, unequal and lossy paths"
DEFAULT = "earliest"
SCHEDULERS = [DEFAULT, *"min-rtt round-robin weighted redundant backup blest ecf".split()]
# They use one path at a time, or all for the same bytes, and have nothing to reorder.
WITHOUT_ORDER = ("redundant", "backup")
MIN_OF_BEST = 0.97
LONGER = {"link.path2.delay": "100 ms"}
SCENES: tuple[tuple[str, str, dict[str, str]], ...] = (
    ("equal", "10 + 10 Mbit/s", {}),
    ("equal-small", "the same, 262,144 B", WINDOW),
    ("longer", "10 ms + 100 ms", LONGER),
    ("longer-small", "the same, 262,144 B", {**LONGER, **WINDOW}),
    ("lossy", "5 % loss on the second, 262,144 B", {"link.path2.loss": "5 %", **WINDOW}),
    ("slower", "10 + 2 Mbit/s, 262,144 B", {"link.path2.rate": "2 Mbit/s", **WINDOW}),
)


def case(name: str, label: str, settings: dict[str, str], scheduler: str) -> Case:
    settings = {**settings, "flow.bulk.scheduler": scheduler}
    return Case(PATHS, 2, f"{name}-{scheduler}", label, settings, ["mctcp"])


def gap_ms(run: Run) -> float:
    return gap(run) * 1e3


def jitter_ms(run: Run) -> float:
    """p99 of the longest time without a byte in each sampling interval, in ms."""
    return quantile([ns for _, ns in run.flow_samples(BULK, "gap_ns")], 0.99) / 1e6


@figure("schedulers", TITLE, "5 min", "virtual")
def schedulers(stage: Stage) -> None:
    grid = Grid(stage, [case(*scene, name) for scene in SCENES for name in SCHEDULERS])
    table = stage.table(
        f"Goodput over {END} s in Mbit/s, most kB that waited for earlier bytes, % sent again over "
        "another path, and the 99th percentile and the longest of times without a byte at the "
        "receiver in ms: medians of 5",
        ["paths", "scheduler", "goodput", "waited", "again", "jitter", "gap"],
    )
    for scene in SCENES:
        rates, waited = {}, {}
        for name in SCHEDULERS:
            reads = (goodput, reordered_kb, reinjected, jitter_ms, gap_ms)
            of = case(*scene, name)
            values = [grid.mctcp(of, "virtual", read).median for read in reads]
            table.row(of.label, name, *map(number, values))
            rates[name], waited[name], *_ = values
        best, ours = max(rates.values()), rates[DEFAULT]
        fast = [name for name, rate in rates.items() if rate >= MIN_OF_BEST * best]
        ordered = (name for name in fast if name not in WITHOUT_ORDER)
        least = min(ordered, key=lambda name: waited[name], default="none")
        stage.claim(
            f"{scene[1]}: goodput of the default scheduler over the best one's",
            f"not in the paper (expected: at least {MIN_OF_BEST})",
            f"{number(ratio(ours, best))}; {number(waited[DEFAULT])} kB waited; least reordering "
            f"at that goodput: {least}, {number(waited.get(least, math.nan))} kB",
            DEFAULT in fast,
        )


# %%
if __name__ == "__main__":
    schedulers.main()
