# %% [markdown]
"""# Bundler, beyond the paper: changes of the path
Rate and RTT of the path change under the bundle.
"""

# %%
from typing import Sequence

from netarium_papers import Run, Stage, figure
from netarium_papers.bundler.cases import BOTH, run_cases
from netarium_papers.bundler.timeline import bundle, coarse, mean, queue_bytes, queue_ms

# Changes: time in s, what, and the rate in Mbit/s and RTT in ms after it.
STEPS = (
    (20, "96 to 24 Mbit/s", 24, 50),
    (50, "24 to 96 Mbit/s", 96, 50),
    (80, "50 to 90 ms", 96, 90),
    (110, "90 to 50 ms", 96, 50),
)
# From this time after a change on, the queue is at most 25 % of the RTT.
QUEUE_BACK_S = 2
# From this time after a change on, 90 % of the rate are used.
USED_AGAIN_S = 5


def used(runs: Sequence[Run], at: float, mbits: float) -> float:
    """The minimum over runs of the % of the rate that are used after a change."""
    sent = (run.link_rate("bottleneck", "up", 0.5) for run in runs)
    return min(mean(of, at + USED_AGAIN_S, at + 25) / 1e4 / mbits for of in sent)


@figure(
    "steps",
    "beyond the paper: 96 Mbit/s become 24 and 96 again, 50 ms become 90 and 50 again",
    "1 min",
    "virtual",
)
def steps(stage: Stage) -> None:
    quo, ours = run_cases(stage, "bundler/steps.toml", BOTH, 3)
    table = stage.table(
        "Worst seed: mean ms of queue at the bottleneck, and the share of its rate that is used",
        ["change", "queue, 2 to 5 s after", "used, 5 to 25 s after", "status quo"],
    )
    for at, change, mbits, rtt in STEPS:
        span = (at + QUEUE_BACK_S, at + USED_AGAIN_S)
        waits = max(mean(queue_ms(run, mbits), *span) for run in ours)
        of_ours, of_quo = used(ours, at, mbits), used(quo, at, mbits)
        table.row(change, f"{waits:.1f} ms", f"{of_ours:.1f} %", f"{of_quo:.1f} %")
        what = f"queue from {QUEUE_BACK_S} to {USED_AGAIN_S} s after {change}"
        stage.expect(what, "", waits, f"at most {rtt / 4:.1f} ms in the mean", f"{waits:.1f} ms")
        what = f"capacity used from {USED_AGAIN_S} s after {change}"
        stage.expect(what, "", of_ours, "at least 90 %")
    x, limits = "time in s", (0, None)
    plot = stage.plot("Rate", x, "Mbit/s", xlim=limits, ylim=limits)
    sent = ours[0].link_rate("bottleneck", "up", 0.5)
    plot.line("through the bottleneck", [(at, rate / 1e6) for at, rate in sent])
    plot.line("rate of the bundle", coarse(bundle(ours[0], "rate_bps", 1e6), 0.2))
    y = "kB at the bottleneck"
    plot = stage.plot("Queue in the network", x, y, xlim=limits, ylim=limits)
    for label, runs in (("status quo", quo), ("Bundler", ours)):
        points = coarse(queue_bytes(runs[0]), 0.2)
        plot.line(label, [(at, size / 1e3) for at, size in points])


# %%
if __name__ == "__main__":
    steps.main()
