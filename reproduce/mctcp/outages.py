# %% [markdown]
"""# MCTCP: outages
One path loses all packets, both do, one recovers after 5 s or 60 s, one is dead from the start.
Nothing reports the outage to the ends.

A path in an outage loses every packet in both directions, without a notification. Claims are about
the slowest run: its value is before the range. On the wall clock each byte is compared: a stream
that differs from what was sent fails.
"""

# %%
import math
from functools import partial
from typing import Any, NamedTuple

from netarium_papers import Run, Stage, figure
from netarium_papers.mctcp import CARRIERS, CLOCKS, WINDOW
from netarium_papers.mctcp.grid import Case, Grid, Lab, Read
from netarium_papers.mctcp.stream import BULK, claim, first_byte, gap, mean_rates, stalled

LAB = Lab("mctcp/outages.toml", ("path1", "path2"))
TITLE = "one path falls silent, both do, one comes back after 5 and 60 s, one never answered"
OUTAGE_S = 4.0
USED = 3e6  # In bit/s, of the 10 Mbit/s of a path.


class Claimed(NamedTuple):
    """What a case claims: its text, upper bound in s, column of the table, and value of a run."""

    text: str
    at_most: float
    column: str
    read: Read


def first_byte_after_start(run: Run) -> float:
    return first_byte(run) - (run.flow(BULK)["started_s"] or 0.0)


def time_to_use(run: Run, path: str, start: float) -> float:
    """The time in s from the return of a path to its use."""
    rates = run.link_rate(path, "up", 0.5)
    return next((at + 0.25 - start for at, rate in rates if at > start and rate >= USED), math.inf)


def path_use(path: int, start: float) -> Claimed:
    read = partial(time_to_use, path=f"path{path}", start=start)
    return Claimed("s from the return to 30 % of its rate", 5.0, "used", read)


GAP = Claimed("longest gap in s", 0.5, "", partial(gap, start=OUTAGE_S))
RETURN = Claimed("s from the return to the next byte", 2.0, "byte", partial(first_byte, start=9.0))
START = Claimed("s from the start to the first byte", 1.0, "byte", first_byte_after_start)
# Name, label, events with a loss of 100 % (1 and 2: outages of the paths at 4 s, 3 and 4: their
# ends at 9 s), other settings, and claim.
Row = tuple[str, str, tuple[int, ...], Any, Claimed]
CASES: list[Row] = [
    ("first", "the first path for good", (1, 3), {}, GAP),
    ("second", "the second path for good", (2, 4), {}, GAP),
    ("first-small", "the first path, 262,144 B", (1, 3), WINDOW, GAP),
    ("both-second", "both, the second returns after 5 s", (1, 2, 3), {}, RETURN),
    ("both-first", "both, the first returns after 5 s", (1, 2, 4), {}, RETURN),
    ("dead", "the first path before the start", (1, 3), {"link.path1.loss": "100 %"}, START),
]
CASES += [
    (f"back-{name}", f"the {name} path, back after 5 s", (path,), {}, path_use(path, 9.0))
    for path, name in ((1, "first"), (2, "second"))
]
LATE: list[Row] = [
    (
        f"late-{name}",
        f"the {name} path, back after 60 s",
        (path,),
        {f"at.{path + 2}.time": "64 s", "lab.duration": "80 s"},
        path_use(path, 64.0),
    )
    for path, name in ((1, "first"), (2, "second"))
]


@figure("outages", TITLE, "20 min", CLOCKS)
def outages(stage: Stage) -> None:
    cases = []
    for name, label, events, settings, of in stage.size(CASES + LATE, CASES):
        lost = {f"at.{event}.set.loss": "100 %" for event in events}
        cases.append((Case(LAB, 2, name, label, {**lost, **settings}, step_ms=7), of))
    grid = Grid(stage, [case for case, _ in cases], virtual=9)
    table = stage.table(
        "Longest gap at the receiver, in all and from the silence on, in s; s from a return (or "
        "the start) to the next byte, and until the path carries 30 % of its rate: medians (least "
        "to largest). Runs that had stalled, and that failed",
        ["case", "clock", "carried by", "gap", "heard after", "used after", "stalled"],
    )
    for clock in stage.clocks():
        for case, of in cases:
            values, gaps = grid.spreads(case, clock, of.read), grid.spreads(case, clock, GAP.read)
            for (carrier, name), value, longest in zip(CARRIERS.items(), values, gaps):
                if runs := grid.runs(case, carrier, clock):
                    cells = [value if of.column == column else "–" for column in ("byte", "used")]
                    table.row(case.label, clock, name, longest, *cells, stalled(runs, 3))
            # The claim is about the slowest run.
            spreads = [values[0]._replace(median=values[0].max), values[1]]
            claim(stage, clock, f"{case.label}: {of.text}", spreads, at_most=of.at_most)
            errors = [run.flow(BULK)["error"] for run in grid.runs(case, "mctcp", clock)]
            failed = [error for error in errors if error]
            stage.claim(
                f"{case.label}: no byte lost or twice ({clock})",
                "required: 0 failures",
                f"{len(failed)}: {failed[0]}" if failed else "0",
                not failed,
            )
    clock = stage.clocks()[0]  # The wall clock if it is wanted.
    for case, _ in cases:
        plot = stage.plot(case.label, "time in s", "Mbit/s", xlim=(0, None), ylim=(0, 25))
        plot.note = f"Goodput, mean and range ({clock} clock)."
        for carrier, name in CARRIERS.items():
            if runs := grid.runs(case, carrier, clock):
                plot.line(name, *mean_rates(run.flow_rate(BULK, 0.5) for run in runs))


# %%
if __name__ == "__main__":
    outages.main()
