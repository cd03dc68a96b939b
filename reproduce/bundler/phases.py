# %% [markdown]
"""# Bundler, figure 8
The bundle has the path alone, then shares it with an elastic flow, then with a constant rate. The
sendbox detects the elastic flow and lets packets pass without control until the flow ends.

Beside the constant rate, 116 Mbit/s are offered to 96, as in the paper's configuration (its text
says requests): large responses wait for the next pause.
"""

# %%
import math
from typing import Sequence

from netarium_papers import Run, Stage
from netarium_papers.bundler import BOTTLENECK_MBITS, timeline, wall_check
from netarium_papers.bundler.cases import BOTH, average, cell, run_cases
from netarium_papers.bundler.slowdown import DEFINITION, SMALL, Requests
from netarium_papers.bundler.timeline import States, goodput_mbits, share, states

LAB = "bundler/phases.toml"
PASSING = "pass-through"
# Phases with start and end in s, and the paper's medians of small requests: status quo, Bundler.
PHASES = (
    ("alone", 5, 60, (1.68, 1.31)),
    ("elastic flow", 60, 120, (2.35, 2.63)),
    ("32 Mbit/s", 120, 180, (2.48, 1.57)),
)
ENDS = (60, 120, 180)
NOTICE_S = 10  # Limit of the time to detect an elastic flow.
# Limit of the time to detect its end: two tests of a released bundle. The first may find that the
# bundle still gets more than beside the constant rate alone.
RETURN_S = 25


def reactions(found: States, ends: Sequence[float]) -> tuple[float, float]:
    """Seconds from the start of the elastic flow, and from its end, until it is detected."""
    starts, stops, end = ends
    noticed = timeline.first(found, PASSING, starts)
    left = timeline.last(found, PASSING, end)
    return (
        noticed - starts if noticed < stops else math.inf,
        left - stops if left > starts else math.inf,
    )


def check(stage: Stage) -> None:
    """Phases of 30 s."""
    spans, settings = ((5, 30), (30, 60), (60, 90)), {}
    for flow, start in (("elastic", 30), ("constant", 60)):
        settings[f"flow.{flow}.start"] = f"{start} s"
        settings[f"flow.{flow}.duration"] = "30 s"

    def read(run: Run) -> list[float]:
        found, requests = states(run), Requests.read([run])
        medians = [requests.between(*span).median(SMALL) for span in spans]
        passing = share(found, PASSING, 0, 30) * 100
        goodput = goodput_mbits(run, "requests", 35, 60)
        return [*medians, goodput, *reactions(found, (30, 60, 90)), passing]

    heads = ["alone, median", "elastic", "constant", "Mbit/s beside elastic", "noticed, s"]
    heads += ["left after its end, s", "% alone in pass-through"]
    cases = [case.set(settings) for case in BOTH]
    checked = wall_check.run_both_clocks(stage, LAB, 90, heads, read, 4, cases)
    wall_check.plot_queues(stage, checked)
    quo, ours = (of.values for of in checked)
    what = "pass-through after the elastic flow comes, in s"
    wall_check.claim(stage, what, "0.9", ours[4], 0, 1.5 * NOTICE_S)
    what = "back after the elastic flow has gone, in s"
    wall_check.claim(stage, what, "6 early", ours[5], -30, 1.5 * RETURN_S)
    what = "throughput beside the elastic flow over status quo"
    wall_check.claim(stage, what, "about the same", ours[3] / quo[3], 0.6)


@wall_check.checked_figure(
    "phases",
    "figure 8: an elastic flow beside the bundle for a minute, then a constant rate",
    "5 min",
    check,
)
def phases(stage: Stage) -> None:
    quo, ours = run_cases(stage, LAB, BOTH, stage.size(10, 3))
    title = "Median slowdown of responses up to 10 kB, the paper's / ours"
    table = stage.table(title, ["phase", "status quo", "Bundler"])
    requests = [Requests.read(runs) for runs in (quo, ours)]
    for name, start, end, paper in PHASES:
        medians = [of.between(start, end).median(SMALL) for of in requests]
        table.row(name, *map(cell, paper, medians))
    seeds = [states(run) for run in ours]
    table = stage.table(
        "Pass-through: when the elastic flow is noticed and when its end is, in s, and the share "
        "of each phase in it (paper: 0.9 s, −5.7 s, after a minute of which 2.7 s were not)",
        ["seed", "noticed after", "left after its end by", "alone", "elastic", "constant"],
    )
    for seed, found in enumerate(seeds, 1):
        after = [f"{at:.1f}" if at < math.inf else "never" for at in reactions(found, ENDS)]
        shares = (share(found, PASSING, start, end) for _, start, end, _ in PHASES)
        table.row(seed, *after, *(f"{of * 100:.0f} %" for of in shares))
    plots(stage, quo[0], ours[0])
    claims(stage, seeds)
    rates = [average(of, lambda run: goodput_mbits(run, "requests", 65, 120)) for of in (quo, ours)]
    what = "throughput beside the elastic flow over status quo, all seeds"
    stage.expect(what, "about the same", rates[1] / rates[0], "at least 0.8 ×")
    stage.note(DEFINITION)


def plots(stage: Stage, quo: Run, ours: Run) -> None:
    x, xlim, ylim = "time in s", (0, 180), (0, None)
    plot = stage.plot("Throughput", x, "Mbit/s", xlim=xlim, ylim=ylim)
    for label, run, flow in (
        ("bundle, status quo", quo, "requests"),
        ("bundle, Bundler", ours, "requests"),
        ("elastic flow beside Bundler", ours, "elastic"),
        ("constant rate beside Bundler", ours, "constant"),
    ):
        plot.line(label, [(at, rate / 1e6) for at, rate in run.flow_rate(flow, 1)])
    passing = [(at, 100 if of == PASSING else math.nan) for at, of in states(ours)]
    plot.line("pass-through", passing, style="dots")
    plot = stage.plot("Delay in the network", x, "ms at the bottleneck", xlim=xlim, ylim=ylim)
    for label, run in (("status quo", quo), ("Bundler", ours)):
        plot.line(label, timeline.coarse(timeline.queue_ms(run, BOTTLENECK_MBITS), 0.5))


def claims(stage: Stage, seeds: Sequence[States]) -> None:
    noticed, left = map(max, zip(*(reactions(found, ENDS) for found in seeds)))
    what = "pass-through after the elastic flow comes, slowest seed"
    stage.expect(what, "0.9 s", noticed, f"within {NOTICE_S} s")
    what = "back after the elastic flow has gone, slowest seed"
    stage.expect(what, "6 s early", left, f"at most {RETURN_S} s after", f"{left:.1f} s")
    alone = max(share(found, PASSING, 0, 60) for found in seeds)
    constant = max(share(found, PASSING, 120 + RETURN_S, 180) for found in seeds)
    stage.claim(
        "false alarms: share of the time in pass-through alone and beside the constant rate",
        "none",
        f"{alone * 100:.1f} % and {constant * 100:.1f} %, worst seed",
        alone == constant == 0,
    )


# %%
if __name__ == "__main__":
    phases.main()
