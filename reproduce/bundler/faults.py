# %% [markdown]
"""# Bundler, beyond the paper: failures
Messages between the gateways are lost and late; the receivebox stops, starts and is replaced.

The paper's prototype does not react to missing acknowledgements: the rate stays the same, and after
a restart of the receivebox its counter is too low forever. The tests of crate bundler cover forged,
replayed and damaged messages.
"""

# %%
import math
from typing import Sequence

from netarium_papers import Run, Stage, figure
from netarium_papers.bundler import timeline
from netarium_papers.bundler.cases import BUNDLER, STATUS_QUO, average, run_cases
from netarium_papers.bundler.timeline import bundle, first, goodput_mbits, mean, share, states

RATE_MBITS = 96
# Events in s: the receivebox stops, starts without its state, and is replaced immediately.
STOP, START, RESTART, END = 30, 45, 70, 90
OPEN_S = 1  # Without acknowledgements the bundle fails open: after 1 s, or eight RTTs.
BACK_S = 5  # Within this time the rate is controlled again.
CASES = [STATUS_QUO, BUNDLER] + [
    BUNDLER.set(
        {"bundle.site.feedback": f'{{ loss = "{loss} %", jitter = "{jitter} ms" }}'},
        f"{loss}-{jitter}",
        f"{loss} % lost, up to {jitter} ms late",
    )
    for loss, jitter in ((10, 0), (50, 0), (0, 40), (50, 40))
]


def goodputs(runs: Sequence[Run]) -> list[float]:
    """Mean goodput in Mbit/s before the stop, and while the receivebox is stopped."""
    return [
        average(runs, lambda run: goodput_mbits(run, "bulk", start, until, 0.5))
        for start, until in ((5, STOP), (STOP + OPEN_S, START))
    ]


def reactions(run: Run) -> list[float]:
    """Seconds until the bundle fails open after the stop, and is back after start and restart."""
    found = states(run)
    # The sendbox may not detect the restart: the bundle is back when it has an RTT again.
    pairs = zip(found, bundle(run, "rtt_ns"))
    measured = [at for (at, state), (_, rtt) in pairs if state == "delay" and rtt > 0]
    opened = first(found, "fail-open", STOP)
    after = ([at - event for at in measured if at > event] for event in (START, RESTART))
    back = [min(of, default=math.inf) for of in after]
    return [opened - STOP if opened < START else math.inf, *back]


def waits(run: Run) -> list[float]:
    """Mean queue in ms before the stop, and 5 to 10 s after start and restart."""
    queue = timeline.queue_ms(run, RATE_MBITS)
    spans = ((10, STOP), (START + BACK_S, START + 10), (RESTART + BACK_S, RESTART + 10))
    return [mean(queue, *span) for span in spans]


@figure(
    "faults",
    "beyond the paper: messages are lost and overtake each other, the receivebox dies",
    "2 min",
    "virtual",
)
def faults(stage: Stage) -> None:
    runs = run_cases(stage, "bundler/faults.toml", CASES, 3)
    table = stage.table(
        "Goodput in Mbit/s from 5 to 30 s, and while the receivebox is stopped; mean ms of queue "
        "at the bottleneck from 10 to 30 s, worst seed; s until traffic passes unshaped after the "
        "stop, is shaped after the start, and after the replacement, slowest seed",
        ["messages", "goodput", "while stopped", "queue", "open after", "back", "again"],
    )
    quo = goodputs(runs[0])
    table.row("status quo", *(f"{rate:.1f}" for rate in quo))
    for case, of in zip(CASES[1:], runs[1:]):
        label = "none lost" if case is BUNDLER else case.label
        ours = goodputs(of)
        slowest, queues = (list(map(max, zip(*map(read, of)))) for read in (reactions, waits))
        after = [f"{at:.2f}" if at < math.inf else "never" for at in slowest]
        table.row(label, *(f"{rate:.1f}" for rate in ours), f"{queues[0]:.1f}", *after)
        for when, rate, base in zip(("before the stop", "while stopped"), ours, quo):
            what = f"goodput {when} over status quo, {label}"
            stage.expect(what, "", rate / base, "at least 0.95 ×")
        for what, limit, at in zip(
            (
                "unshaped after the receivebox stopped",
                "shaped again after it started",
                "shaped after it was replaced",
            ),
            (OPEN_S, BACK_S, BACK_S),
            slowest,
        ):
            stage.expect(f"{what}, {label}", "", at, f"within {limit} s", f"{at:.2f} s")
        events = ("before the stop", "5 to 10 s after its start", "5 to 10 s after its replacement")
        for when, queue in zip(events, queues):
            what, text = f"queue at the bottleneck {when}, {label}", f"{queue:.1f} ms, worst seed"
            stage.expect(what, "", queue, "at most 12.5 ms in the mean", text)
        opened = max(share(states(run), "fail-open", 5, STOP) for run in of)
        what = f"share of the time that traffic passes unshaped before the stop, {label}"
        paper = "not in the paper (expected: none)"
        stage.claim(what, paper, f"{opened * 100:.1f} %, worst seed", opened == 0)
    note = "The receivebox stops at 30 s, starts at 45 s and is replaced at 70 s."
    title, x, y = "Delay in the network", "time in s", "ms at the bottleneck"
    plot = stage.plot(title, x, y, xlim=(0, END), ylim=(0, None), note=note)
    for case, of in zip(CASES, runs):
        plot.line(case.label, timeline.coarse(timeline.queue_ms(of[0], RATE_MBITS), 0.25))


# %%
if __name__ == "__main__":
    faults.main()
