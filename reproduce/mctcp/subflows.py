# %% [markdown]
"""# MCTCP: number of subflows
Question of the paper's outlook: how many subflows? Here with loss, and beside a TCP connection.

Each subflow is a TCP connection with its own congestion controller: at a shared bottleneck n
subflows take as much as n connections. MCTCP opens one for each path by default.
"""

# %%
from netarium_papers import Run, Stage, figure
from netarium_papers.mctcp.grid import BOTTLENECK, PATHS, Case, Grid, Lab, shares
from netarium_papers.mctcp.stream import BULK, goodput, number, ratio, reinjected, reordered_kb

TITLE = "outlook: how many subflows, with loss and beside others"
SUBFLOWS = (1, 2, 3, 4, 6, 8)
LOSSES = (0, 1, 2, 5)
DEFAULT = 2  # One for each path.
OF_MOST = "at least 0.97"


def case(lab: Lab, count: int, loss: int = 0) -> Case:
    settings = {f"link.path{path}.loss": f"{loss} %" for path in (1, 2) if loss}
    settings["flow.bulk.subflows"] = str(count)
    name, label = f"{count}-{loss}", f"{count}, {loss} %"
    if lab == BOTTLENECK:
        name, label = f"shared-{count}", str(count)
    return Case(lab, 2, name, label, settings, ["mctcp"])


def retransmits(run: Run) -> float:
    return float(sum(path["retransmits"] for path in run.flow(BULK)["paths"]))


@figure("subflows", TITLE, "5 min", "virtual")
def subflows(stage: Stage) -> None:
    alone = {(n, loss): case(PATHS, n, loss) for loss in LOSSES for n in SUBFLOWS}
    beside = [case(BOTTLENECK, count) for count in SUBFLOWS]
    grid = Grid(stage, [*alone.values(), *beside])
    axes = ("subflows over two paths", "Mbit/s")
    plot = stage.plot("Goodput", *axes, xlim=(0, None), ylim=(0, None))
    table = stage.table(
        "Two paths of 10 Mbit/s: goodput in Mbit/s, kB that waited at the receiver, % sent again "
        "over another path, segments that TCP sent again: medians",
        ["subflows, loss", "goodput", "waited", "again", "retransmissions"],
    )
    rates = {}
    for at, of in alone.items():
        reads = (goodput, reordered_kb, reinjected, retransmits)
        values = [grid.mctcp(of, "virtual", read).median for read in reads]
        table.row(of.label, *map(number, values))
        rates[at] = values[0]
    for loss in LOSSES:
        plot.line(f"{loss} % lost", [(count, rates[count, loss]) for count in SUBFLOWS])
    ours, most = rates[DEFAULT, 0], max(rates[count, 0] for count in SUBFLOWS)
    what = "one subflow for each path, nothing lost: goodput over the most"
    stage.expect(what, "", ratio(ours, most), OF_MOST, number(ratio(ours, most)))
    table = stage.table(
        "At one bottleneck of 20 Mbit/s: Mbit/s of each, medians (least to largest; virtual clock)",
        ["subflows", "MCTCP", "one TCP beside"],
    )
    for of in beside:
        table.row(of.label, *shares(grid.runs(of, "mctcp", "virtual")))


# %%
if __name__ == "__main__":
    subflows.main()
