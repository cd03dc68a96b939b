# %% [markdown]
"""# MCTCP: equal paths
On one to four paths of 10 Mbit/s the stream gets the sum of the goodputs of single connections.
"""

# %%
from netarium_papers import Stage, figure
from netarium_papers.mctcp import CARRIERS, CLOCKS
from netarium_papers.mctcp.grid import PATHS, Case, Grid, median_sum, with_tcp
from netarium_papers.mctcp.stream import END, claim, gap

TITLE = "one to four paths of 10 Mbit/s: the sum of single connections' goodputs"
MIN_OF_SUM = {1: 0.99, 2: 0.98, 3: 0.98, 4: 0.98}  # By the number of paths.


@figure("sums", TITLE, "10 min", CLOCKS)
def equal_paths(stage: Stage) -> None:
    # Paths are equal: the single connections of the largest case serve for all.
    cases = [
        Case(PATHS, n, f"sum-{n}", "", {}, with_tcp(n) if n == 4 else tuple(CARRIERS))
        for n in MIN_OF_SUM
    ]
    grid = Grid(stage, cases)
    table = stage.table(
        f"Goodput over the first {END} s in Mbit/s, and the longest gap of MCTCP in s: medians "
        "(least to largest)",
        ["paths", "clock", "MCTCP", "kernel MPTCP", "single TCPs, added", "longest gap"],
    )
    for clock in stage.clocks():
        single = grid.goodputs(cases[-1], clock)[2:]
        for case in cases:
            both, total = grid.goodputs(case, clock)[:2], median_sum(single[: case.paths])
            table.row(case.paths, clock, *both, f"{total:.2f}", grid.mctcp(case, clock, gap))
            what = f"{case.paths} × 10 Mbit/s, over single TCPs' sum"
            claim(stage, clock, what, both, over=total, at_least=MIN_OF_SUM[case.paths])


# %%
if __name__ == "__main__":
    equal_paths.main()
