# %% [markdown]
"""# MCTCP: larger networks
Question of the paper's outlook: other topologies. Four and eight paths, and a shared bottleneck.
"""

# %%
from netarium_papers import Stage, figure
from netarium_papers.mctcp import CARRIERS, CLOCKS, WINDOW
from netarium_papers.mctcp.grid import BOTTLENECK, PATHS, Case, Grid, median_sum, shares, with_tcp
from netarium_papers.mctcp.stream import END, claim, gap, reordered_kb

TITLE = "outlook: four and eight paths, equal and not, and a bottleneck that paths share"
MIN_OF_SUM = 0.95
UNCLAIMED = "mixed-small-8"  # With 262,144 B, eight paths of unequal delay cannot all be full.
MAX_OF_SHARE = 3.0  # Two subflows, over the share of one connection.


def cases(paths: int) -> list[Case]:
    mixed = {f"link.path{n}.rate": f"{2 + 2 * n} Mbit/s" for n in range(1, paths + 1)}
    mixed.update({f"link.path{n}.delay": f"{5 * n} ms" for n in range(1, paths + 1)})
    kinds: list[tuple[str, str, dict[str, str]]] = [
        ("equal", " of 10 Mbit/s", {}),
        ("mixed", " of 4, 6, 8 … Mbit/s and 5, 10, 15 … ms", mixed),
        ("mixed-small", ", the same, 262,144 B", {**WINDOW, **mixed}),
    ]
    return [
        Case(PATHS, paths, f"{name}-{paths}", f"{paths} paths{label}", settings, with_tcp(paths))
        for name, label, settings in kinds
    ]


@figure("topologies", TITLE, "15 min", CLOCKS)
def topologies(stage: Stage) -> None:
    separate, shared = cases(4) + cases(8), Case(BOTTLENECK, 2, "shared", "")
    grid = Grid(stage, [*separate, shared], wall=3)
    table = stage.table(
        f"Goodput over {END} s in Mbit/s; of MCTCP the longest gap in s, and the most kB that "
        "waited: medians (least to largest)",
        ["paths", "clock", "MCTCP", "kernel MPTCP", "TCPs, added", "gap", "waited"],
    )
    cells = [(case, clock) for clock in stage.clocks() for case in separate]
    for case, clock in cells:
        ours, kernel, *tcps = grid.goodputs(case, clock)
        total = median_sum(tcps)
        values = [grid.mctcp(case, clock, read) for read in (gap, reordered_kb)]
        table.row(case.label, clock, ours, kernel, f"{total:.2f}", *values)
        if case.name != UNCLAIMED:
            what = f"{case.label}: over single TCPs' sum"
            claim(stage, clock, what, [ours, kernel], over=total, at_least=MIN_OF_SUM)
    table = stage.table(
        "At a bottleneck of 20 Mbit/s that both paths share with one TCP connection: Mbit/s of "
        "each, medians (least to largest)",
        ["carried by", "clock", "stream", "the other"],
    )
    for clock in stage.clocks():
        for carrier, name in CARRIERS.items():
            if runs := grid.runs(shared, carrier, clock):
                stream, beside = shares(runs)
                table.row(name, clock, stream, beside)
        stream, beside = shares(grid.runs(shared, "mctcp", clock))
        what = "shared bottleneck: Mbit/s of the stream over one TCP connection's beside it"
        claim(stage, clock, what, [stream], over=beside.median, at_most=MAX_OF_SHARE)


# %%
if __name__ == "__main__":
    topologies.main()
