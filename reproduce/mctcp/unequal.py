# %% [markdown]
"""# MCTCP: unequal paths
The stream is never worse than the best path alone; with enough memory it gets the sum.
"""

# %%
from netarium_papers import Stage, figure
from netarium_papers.mctcp import CLOCKS, WINDOW
from netarium_papers.mctcp.grid import PATHS, Case, Grid, label, with_tcp
from netarium_papers.mctcp.stream import END, claim, gap, reinjected, reordered_kb

TITLE = "paths of unequal delay and rate, with the seed's buffers and without limit"
LONGER = {"link.path2.delay": "100 ms"}
SLOWER = {"link.path2.rate": "2 Mbit/s"}
FAST = {"link.path1.rate": "100 Mbit/s", "link.path1.queue": "1 bdp", "link.path2.delay": "1 ms"}
SHALLOW = {"link.path1.queue": "60 kB"}
MIB = {"flow.bulk.window": "1 MiB"}
FAST_LABEL = "100 Mbit/s 10 ms + 2 Mbit/s 1 ms"
SHALLOW_LABEL = "100 Mbit/s 10 ms, 60 kB queue + 2 Mbit/s 1 ms, 1 MiB"
SLOWER_LONGER_LABEL = "10 Mbit/s 10 ms + 2 Mbit/s 100 ms, 262,144 B"
# Name, label, settings, and the share that the stream must reach: of the best single connection,
# or of the sum of both.
CASES: list[tuple[str, str, dict[str, str], str, float]] = [
    ("longer", "10 ms + 100 ms", LONGER, "sum", 0.95),
    ("longer-small", "10 ms + 100 ms, 262,144 B", {**LONGER, **WINDOW}, "best", 1.4),
    ("slower", "10 + 2 Mbit/s", SLOWER, "best", 0.98),
    ("slower-small", "10 + 2 Mbit/s, 262,144 B", {**SLOWER, **WINDOW}, "best", 0.98),
    ("slower-longer", SLOWER_LONGER_LABEL, {**SLOWER, **LONGER, **WINDOW}, "best", 0.98),
    ("fast-slow", FAST_LABEL, {**FAST, **SLOWER}, "best", 0.98),
    ("fast-slow-middle", f"{FAST_LABEL}, 1 MiB", {**FAST, **SLOWER, **MIB}, "best", 0.98),
    ("fast-slow-shallow", SHALLOW_LABEL, {**FAST, **SLOWER, **SHALLOW, **MIB}, "best", 0.98),
    ("fast-slow-small", f"{FAST_LABEL}, 262,144 B", {**FAST, **SLOWER, **WINDOW}, "best", 0.98),
]


@figure("unequal", TITLE, "10 min", CLOCKS)
def unequal_paths(stage: Stage) -> None:
    cases = [Case(PATHS, 2, *of[:3], with_tcp(2)) for of in CASES]
    grid = Grid(stage, cases)
    table = stage.table(
        f"Goodput over the first {END} s in Mbit/s: medians (least to largest); of MCTCP the "
        "longest gap in s, the most kB that waited at the receiver, and % of bytes sent again over "
        "another path",
        ["paths", "clock", *map(label, with_tcp(2)), "longest gap", "waited", "again"],
    )
    for clock in stage.clocks():
        for case, (*_, what, share) in zip(cases, CASES):
            ours = [grid.mctcp(case, clock, read) for read in (gap, reordered_kb, reinjected)]
            goodputs = grid.goodputs(case, clock)
            table.row(case.label, clock, *goodputs, *ours)
            single = [of.median for of in goodputs[2:]]
            one = sum(single) if what == "sum" else max(single)
            what = f"{case.label}: over single TCPs' {what}"
            claim(stage, clock, what, goodputs[:2], over=one, at_least=share)


# %%
if __name__ == "__main__":
    unequal_paths.main()
