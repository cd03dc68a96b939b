# %% [markdown]
"""# MCTCP: loss and delay of both paths
Slide 9 of the paper: mean throughput against loss on both paths. Then delays of 1 to 100 ms, with
the buffers of the paper and with tuned ones.
"""

# %%
from typing import Any, Mapping, Sequence

from netarium_papers import Stage, figure
from netarium_papers.mctcp import CLOCKS, WINDOW, suits
from netarium_papers.mctcp.grid import PATHS, Case, Grid, label, median_sum, with_tcp
from netarium_papers.mctcp.stream import claim

LOSSES = (0, 0.5, 1, 2, 3, 5, 10), (0, 5)  # In %, full and short.
DELAYS = (1, 2, 5, 10, 20, 50, 100), (10, 100)  # In ms.
MIN_OF_SUM = 0.9


def case(name: str, text: str, field: str, value: str, end: int, window: Mapping[str, str]) -> Case:
    both = {f"link.path{path}.{field}": value for path in (1, 2)}
    settings = {"lab.duration": f"{end} s", **both, **window}
    return Case(PATHS, 2, name, text, settings, with_tcp(2))


def sweep(stage: Stage, grid: Grid, cases: Mapping[Any, Case], x: str, end: int) -> None:
    """Plots and tables of goodput against the keys of the cases."""
    axes: Mapping[str, Any] = {"xlim": (0, None)} if 0 in cases else {"log": "x"}
    for clock in stage.clocks():
        plot = stage.plot(f"Goodput ({clock} clock)", x, "Mbit/s", ylim=(0, None), **axes)
        title = f"Goodput in Mbit/s over {end} s: medians (least to largest; {clock} clock)"
        table = stage.table(title, [x, *map(label, with_tcp(2))])
        rows = [grid.goodputs(of, clock, end) for of in cases.values()]
        for of, row in zip(cases.values(), rows):
            table.row(of.label, *row)
        for carrier, spreads in zip(with_tcp(2), zip(*rows)):
            if suits(carrier, clock):
                points = [(value, of.median) for value, of in zip(cases, spreads)]
                plot.line(label(carrier), points, [(of.min, of.max) for of in spreads])
        sums = [(value, median_sum(row[2:])) for value, row in zip(cases, rows)]
        plot.line("single TCPs, added", sums, style="reference")


@figure("loss", "slide 9: mean throughput against loss on both paths", "15 min", CLOCKS)
def against_loss(stage: Stage) -> None:
    losses: Sequence[float] = stage.size(*LOSSES)
    cases = {of: case(f"loss-{of}", f"{of} %", "loss", f"{of} %", 40, WINDOW) for of in losses}
    grid = Grid(stage, list(cases.values()))
    sweep(stage, grid, cases, "loss on both paths in %", 40)
    for clock in stage.clocks():
        for of in cases.values():
            ours, kernel, *tcps = grid.goodputs(of, clock, 40)
            stage.claim(
                f"loss of {of.label} on both paths: goodput ({clock})",
                f"multipath raises throughput (here: at least {MIN_OF_SUM} × the single TCPs' "
                f"{median_sum(tcps):.2f} Mbit/s together; kernel MPTCP {kernel})",
                f"{ours} Mbit/s",
                ours.median >= MIN_OF_SUM * median_sum(tcps),
            )


TITLE = "delays of 1 to 100 ms on both paths, with the seed's buffers and tuned ones"


@figure("delay", TITLE, "15 min", CLOCKS)
def against_delay(stage: Stage) -> None:
    for name, text, window in (("fixed", "262,144 B", WINDOW), ("tuned", "tuned buffers", {})):
        cases = {
            of: case(f"delay-{of}-{name}", f"{of} ms, {text}", "delay", f"{of} ms", 30, window)
            for of in stage.size(*DELAYS)
        }
        grid = Grid(stage, list(cases.values()), wall=3)
        sweep(stage, grid, cases, "one-way delay in ms", 30)
        for clock in stage.clocks():
            for delay, of in cases.items():
                # From 50 ms on, the fixed buffers limit the goodput on any number of paths.
                if delay < 50 or not window:
                    ours, kernel, *tcps = grid.goodputs(of, clock, 30)
                    what, total = f"{of.label}: over single TCPs' sum", median_sum(tcps)
                    claim(stage, clock, what, [ours, kernel], over=total, at_least=MIN_OF_SUM)


# %%
if __name__ == "__main__":
    against_loss.main()
