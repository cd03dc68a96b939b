# %% [markdown]
"""# MCTCP: the schedule of the paper
Slides 7 and 8: two paths of 10 Mbit/s. From 10 s to 20 s both lose packets, from 30 s to 40 s the
left one does, and from 50 s to 60 s the right one is longer. Beside the stream there may be a flow
of datagrams.
"""

# %%
from netarium_papers import Stage, figure
from netarium_papers.mctcp import CLOCKS, WINDOW
from netarium_papers.mctcp.grid import Case, Grid, Lab, label, with_tcp
from netarium_papers.mctcp.stream import BULK, claim, gap, goodput, mean_rates, stalled

LAB = Lab("mctcp/seed.toml", ("left-out", "right-out"))
# Links at the client: what each path carried.
ARRIVING = {"left-in": "left path", "right-in": "right path"}
TITLE = "slide 7: loss on both paths, on one, longer delay on the other; 10 Mbit/s offered"
TITLE_UDP = "slide 8: the same with 2 Mbit/s of datagrams beside it on one path, 0 and 10 % loss"
PHASES = "0–10 s,both lose,20–30 s,left loses,40–50 s,right longer,60–70 s".split(",")
SPANS = [(start, start + 10) for start in range(0, 70, 10)]
LEFT_LOSES = SPANS[3]
REACHED = 0.99  # Of the kernel's: the resolution of goodputs over 10 s is 1 %.


def case(rate: str, loss: int, is_fixed: bool, is_beside_udp: bool = False) -> Case:
    buffers = "fixed" if is_fixed else "tuned"
    name = f"{rate.replace(' ', '').replace('/', '')}-{loss}-{buffers}"
    settings = {f"at.{event}.set.loss": f"{loss} %" for event in (1, 2, 5)}
    settings.update({"flow.bulk.rate": rate, **(WINDOW if is_fixed else {})})
    if is_beside_udp:
        settings["flow.beside.start"] = "0 s"
    carriers = with_tcp(1 if is_beside_udp else 2 if is_fixed else 0)
    return Case(LAB, 2, name, f"{loss} %, {buffers} buffers", settings, carriers)


def of_rate(stage: Stage, rate: str) -> None:
    losses = stage.size((0, 2, 5, 10), (0, 5))
    cases = [case(rate, loss, is_fixed) for is_fixed in (True, False) for loss in losses]
    grid = Grid(stage, cases)
    for clock in stage.clocks():
        phases(stage, cases, grid, clock)
    for clock in stage.clocks():
        kernel_claims(stage, cases, grid, clock)
        if rate == "20 Mbit/s":
            ours, kernel, _, clean = grid.spreads(case(rate, 5, True), clock, goodput, *LEFT_LOSES)
            what = "20 Mbit/s, the left path loses 5 %: over a single TCP on the clean path"
            claim(stage, clock, what, [ours, kernel], over=clean.median, at_least=1.1)
    plots(stage, cases[: len(losses)], grid)
    stage.note(
        "The delay of a path is one way; event 3 makes it 100 ms in both directions. The "
        "throughput of a path is that of its last link, on the wire. Where less is offered than "
        "the paths carry, a stream that has lagged catches up in the next phase: there, as many "
        "bytes since the start as with the kernel's count as reaching the kernel's. A stream "
        "without a byte in the last 5 s is stalled."
    )


@figure("schedule", TITLE, "30 min", CLOCKS)
def rate_10(stage: Stage) -> None:
    of_rate(stage, "10 Mbit/s")


@figure("schedule-20", "the same with 20 Mbit/s offered", "30 min", CLOCKS)
def rate_20(stage: Stage) -> None:
    of_rate(stage, "20 Mbit/s")


@figure("schedule-unlimited", "the same with as much as goes", "30 min", CLOCKS)
def unlimited(stage: Stage) -> None:
    of_rate(stage, "100 Mbit/s")


@figure("schedule-udp", TITLE_UDP, "15 min", CLOCKS)
def beside_udp(stage: Stage) -> None:
    cases = [case("20 Mbit/s", loss, True, is_beside_udp=True) for loss in (0, 10)]
    grid = Grid(stage, cases)
    for clock in stage.clocks():
        phases(stage, cases, grid, clock)
        kernel_claims(stage, cases, grid, clock)
    plots(stage, cases, grid)
    stage.note(
        "2 Mbit/s of payload on the left path take 2.1 Mbit/s of its 10. The throughput of a path "
        "is that of the stream alone."
    )


def phases(stage: Stage, cases: list[Case], grid: Grid, clock: str) -> None:
    """The table of goodputs in each phase, for each case and carrier."""
    table = stage.table(
        "Goodput in Mbit/s in the phases, medians; the median of longest gaps in s, and runs that "
        f"stalled ({clock} clock)",
        ["case", "carried by", *PHASES, "all", "longest gap", "stalled"],
    )
    for of in cases:
        columns = [grid.spreads(of, clock, goodput, *span) for span in [*SPANS, (0, 70)]]
        columns.append(grid.spreads(of, clock, gap))
        for carrier, row in zip(of.carriers, zip(*columns)):
            if runs := grid.runs(of, carrier, clock):
                cells = [f"{spread.median:.2f}" for spread in row]
                table.row(of.label, label(carrier), *cells, stalled(runs, 5))


def kernel_claims(stage: Stage, cases: list[Case], grid: Grid, clock: str) -> None:
    """Claims for each phase but the last."""
    for of in cases if clock == "wall" else []:
        for what, (start, end) in zip(PHASES[:-1], SPANS):
            own, other, *_ = grid.spreads(of, clock, goodput, start, end)
            own_all, other_all = (spread.median for spread in grid.goodputs(of, clock, end)[:2])
            stage.claim(
                f"{of.label}, {what}: goodput ({clock})",
                f"required: kernel MPTCP's {other} ({other_all:.2f} until then)",
                f"{own} ({own_all:.2f} until then)",
                reaches(own.median, other.median, own_all, other_all),
            )


def reaches(own: float, other: float, own_all: float, other_all: float) -> bool:
    """In the phase itself; or from the start to its end, for a stream that has lagged less."""
    return own >= REACHED * other or own < other and own_all >= REACHED * other_all > 0


def plots(stage: Stage, cases: list[Case], grid: Grid) -> None:
    """Throughput of each path over time; on the wall clock if it is wanted."""
    clock = stage.clocks()[0]
    cells = [(of, carrier) for of in cases for carrier in with_tcp(1)]
    for of, carrier in cells:
        if runs := grid.runs(of, carrier, clock):
            title = f"{label(carrier)}, {of.label}"
            plot = stage.plot(title, "time in s", "Mbit/s", xlim=(0, 70), ylim=(0, 20))
            plot.note = f"{clock} clock, mean and range of {len(runs)} runs."
            for link, name in ARRIVING.items():
                mean, spread = mean_rates(run.link_rate(link, "up", 1.0) for run in runs)
                if any(rate > 0.01 for _, rate in mean):
                    plot.line(name, mean, spread)
            plot.line("goodput", mean_rates(run.flow_rate(BULK, 1.0) for run in runs)[0])


# %%
if __name__ == "__main__":
    rate_10.main()
