# %% [markdown]
"""# Bundler, figure 6
With several paths between the gateways, acknowledgements arrive out of order. The sendbox detects
it and disables the bundle.
"""

# %%
import math
from typing import NamedTuple, Sequence

from netarium_papers import Run, Stage, figure
from netarium_papers.bundler.cases import average, run_pairs, times
from netarium_papers.bundler.timeline import bundle, first, goodput_mbits, last, mean, share, states

PATHS = (1, 2, 4, 8, 16, 32)
GRID = ((12, 50), (48, 10), (96, 50), (96, 10), (96, 300), (48, 100))  # Mbit/s, ms
# The paper's share of acknowledgements out of order: maximum of one path, minimum of several.
SINGLE, SEVERAL = 0.004, 0.2
MANY = 4  # From this number of paths on they must be detected.
NOTICE_S, GOODPUT = 10, "at least 0.97 ×"
# The paths of the lab `merge` become one at 60 s.
MERGED_S, END_S = 60, 150


class Cell(NamedTuple):
    """A cell of the grid over its seeds; `disabled` are times in s, infinite for never."""

    paths: int
    which: str
    out_of_order: list[float]
    disabled: list[float]
    ratio: float


def split(mbits: int, rtt: int, paths: int) -> dict[str, str]:
    """The rate, divided among some of the 32 paths of the lab."""
    settings = {f"link.path{path}.state": "down" for path in range(paths + 1, PATHS[-1] + 1)}
    for path in range(1, paths + 1):
        settings[f"link.path{path}.rate"] = f"{round(mbits * 1e6 / paths)} bit/s"
        settings[f"link.path{path}.delay"] = f"{rtt / 2:g} ms"
    return settings


def goodput_ratio(pair: Sequence[Sequence[Run]]) -> float:
    quo, ours = (average(of, lambda run: goodput_mbits(run, "bulk", NOTICE_S)) for of in pair)
    return ours / quo


@figure(
    "multipath",
    "figure 6: acknowledgements overtake each other where paths differ, boxes step aside",
    "6 min",
    "virtual",
)
def multipath(stage: Stage) -> None:
    paths_of, grid = stage.size(PATHS, (1, 4, 32)), stage.size(GRID, ((96, 50),))
    keys = [(*path, paths) for path in grid for paths in paths_of]
    settings = {"-".join(map(str, key)): split(*key) for key in keys}
    cells = [
        Cell(
            paths,
            f"{mbits} Mbit/s, {rtt} ms",
            [mean(bundle(run, "out_of_order"), 5) for run in pair[0]],
            [first(states(run), "disabled") for run in pair[1]],
            goodput_ratio(pair),
        )
        for (mbits, rtt, paths), pair in zip(
            keys, run_pairs(stage, "bundler/multipath.toml", settings, 3)
        )
    ]
    tabulate(stage, cells)
    claims(stage, cells)
    merge(stage)


def tabulate(stage: Stage, cells: Sequence[Cell]) -> None:
    table = stage.table(
        "Share of acknowledgements out of order without pacing, in %, of the seeds; s until the "
        "bundle is disabled, slowest seed; goodput over status quo from 10 s on",
        ["paths", "rate, round trip", "out of order", "disabled after", "goodput"],
    )
    for paths, which, shares, disabled, ratio in cells:
        out_of_order = f"{min(shares) * 100:.1f} to {max(shares) * 100:.1f}"
        after = f"{max(disabled):.1f}" if math.isfinite(max(disabled)) else "–"
        table.row(paths, which, out_of_order, after, times(ratio))
    title, y = "Acknowledgements out of order", "% of acknowledgements"
    plot = stage.plot(title, "paths", y, log="x", ylim=(0, None))
    for which in dict.fromkeys(cell.which for cell in cells):
        own = [cell for cell in cells if cell.which == which]
        plot.line(which, [(cell.paths, min(cell.out_of_order) * 100) for cell in own])
    paper = [(1, SINGLE * 100), (2, SEVERAL * 100), (32, SEVERAL * 100)]
    plot.line("paper: most of one, least of several", paper, style="reference")


def claims(stage: Stage, cells: Sequence[Cell]) -> None:
    single = [cell for cell in cells if cell.paths == 1]
    many = [cell for cell in cells if cell.paths >= MANY]
    highest = max(max(cell.out_of_order) for cell in single)
    what, paper = "acknowledgements out of order, one path, worst", f"at most {SINGLE * 100:.1f} %"
    stage.claim(what, paper, f"{highest * 100:.2f} %", highest <= SINGLE)
    lowest = min(min(cell.out_of_order) for cell in many)
    what = f"acknowledgements out of order, {MANY} paths and more, least"
    paper = f"at least {SEVERAL * 100:.0f} % with several (here: twelve times a single path's)"
    stage.claim(what, paper, f"{lowest * 100:.1f} %", lowest >= 12 * SINGLE)
    wrong = sum(math.isfinite(min(cell.disabled)) for cell in single)
    ours = f"{wrong} of {len(single)}"
    stage.claim("single paths taken for several", "none", ours, wrong == 0)
    slowest = max(max(cell.disabled) for cell in many)
    what = f"disabled with {MANY} paths and more, slowest"
    stage.expect(what, "", slowest, f"within {NOTICE_S} s")
    what = f"goodput over status quo with {MANY} paths and more, least"
    stage.expect(what, "", min(cell.ratio for cell in many), GOODPUT)


def merge(stage: Stage) -> None:
    (pair,) = run_pairs(stage, "bundler/merge.toml", {"merge": {}}, 3)
    found = [states(run) for run in pair[1]]
    slowest = max(first(of, "disabled") for of in found)
    what = "four unequal paths: disabled, slowest seed"
    stage.expect(what, "", slowest, f"within {NOTICE_S} s")
    until = max(last(of, "disabled", END_S) for of in found) - MERGED_S
    shaped = min(share(of, "delay", END_S - 20, END_S) for of in found)
    stage.claim(
        "the paths become one: enabled again, slowest seed",
        "not in the paper (expected: while the lab lasts, and shaping in its last 20 s)",
        f"after {until:.1f} s; {shaped * 100:.0f} % of the last 20 s shaped",
        until < END_S - MERGED_S - 20 and shaped > 0.9,
    )
    stage.expect("goodput over status quo while paths merge", "", goodput_ratio(pair), GOODPUT)


# %%
if __name__ == "__main__":
    multipath.main()
