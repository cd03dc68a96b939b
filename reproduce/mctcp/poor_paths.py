# %% [markdown]
"""# MCTCP: poor paths
Question of the paper's outlook: when to stop using a poor path? A second path of any rate, delay
and loss should not make the stream worse than the first path alone.

Where a second path never reduces the goodput, the stream can keep it: the scheduler sends over it
only what it expects to arrive in time, which may be nothing.
"""

# %%
import itertools

from netarium_papers import Stage, figure
from netarium_papers.mctcp import WINDOW
from netarium_papers.mctcp.grid import PATHS, Case, Grid
from netarium_papers.mctcp.stream import END, gap, goodput, number, ratio

TITLE = "outlook: when to leave a poor path, by its rate, delay and loss"
# Mbit/s, one-way ms and % of the second path, full and short.
RATES = (0.1, 0.5, 1, 2, 5), (0.5, 2)
DELAYS = (10, 50, 200, 500), (10, 200)
LOSSES = (0, 5, 20), (0, 5)
OF_ALONE = "at least 0.98"


def case(rate: float, delay: int, loss: int) -> Case:
    values = {"rate": f"{rate} Mbit/s", "delay": f"{delay} ms", "loss": f"{loss} %"}
    settings = {f"link.path2.{field}": value for field, value in values.items()}
    name, label = f"poor-{rate}-{delay}-{loss}", ", ".join(values.values())
    return Case(PATHS, 2, name, label, {**settings, **WINDOW}, ["mctcp"])


@figure("poor", TITLE, "10 min", "virtual")
def poor_paths(stage: Stage) -> None:
    rates, delays, losses = (stage.size(*of) for of in (RATES, DELAYS, LOSSES))
    cases = {of: case(*of) for of in itertools.product(rates, delays, losses)}
    alone = Case(PATHS, 1, "poor-alone", "", WINDOW, ["mctcp", "tcp1"])
    grid = Grid(stage, [*cases.values(), alone], virtual=3)
    first, tcp = (of.median for of in grid.goodputs(alone, "virtual"))
    table = stage.table(
        f"Beside a path of 10 Mbit/s and 10 ms, 262,144 B: goodput over {END} s in Mbit/s with "
        "this second path, over that without it; longest gap in s: medians of 3",
        ["second path", "goodput", "over one path", "gap"],
    )
    over = {}
    for at, of in cases.items():
        rate, longest = (grid.mctcp(of, "virtual", read).median for read in (goodput, gap))
        over[at] = ratio(rate, first)
        table.row(of.label, *map(number, (rate, over[at], longest)))
    worst = min(over, key=lambda at: over[at])
    what = "goodput with any second path, over the first path alone, worst"
    ours = f"{number(over[worst])} ({cases[worst].label})"
    stage.expect(what, "", over[worst], OF_ALONE, ours)
    what, own = "one path: goodput over TCP's", number(ratio(first, tcp))
    stage.claim(what, "required: at least 0.99", own, first >= 0.99 * tcp)
    for loss in losses:
        x = "rate of the second path in Mbit/s"
        plot = stage.plot(f"Second path losing {loss} %", x, "goodput over one path", log="x")
        for delay in delays:
            plot.line(f"{delay} ms", [(rate, over[rate, delay, loss]) for rate in rates])
        ends = [(rate, 1.0) for rate in rates]
        plot.line("one path", ends, style="reference")


# %%
if __name__ == "__main__":
    poor_paths.main()
