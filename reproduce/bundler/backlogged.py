# %% [markdown]
"""# Bundler, figure 2
Without Bundler the queue of backlogged flows is at the bottleneck. With Bundler it moves to the
sendbox, and the goodput stays the same.

The paper draws about 15 packets (1.9 ms) at the bottleneck instead of 90 to 150 (11 to 19 ms), for
one flow. The queue is sampled every 10 ms.
"""

# %%
from netarium_papers import Run, Stage, moments, quantile
from netarium_papers.bundler import BOTTLENECK_MBITS, wall_check
from netarium_papers.bundler.cases import run_pairs
from netarium_papers.bundler.timeline import between, bundle, coarse, goodput_mbits, mean, queue_ms

LAB = "bundler/backlogged.toml"
SETTLED_S = 10  # Start-up is over.


def waits(run: Run) -> list[list[tuple[float, float]]]:
    """Queue at the bottleneck and at the sendbox in ms."""
    return [queue_ms(run, BOTTLENECK_MBITS), bundle(run, "waiting_ns", 1e6)]


def read(run: Run, seconds: float) -> list[float]:
    """Goodput in Mbit/s; queue at bottleneck and sendbox, and RTT of the loop, all in ms."""
    loops = [rtt_s * 1e3 for rtt_s in run.round_trips("loop")]
    queues = [mean(points, SETTLED_S, seconds) for points in waits(run)]
    goodput = goodput_mbits(run, "bulk", SETTLED_S, seconds)
    return [goodput, *queues, quantile(loops, 0.5), quantile(loops, 0.99)]


def check(stage: Stage) -> None:
    seconds = stage.size(60, 20)
    heads = ["goodput", "bottleneck, ms", "sendbox, ms", "loop, median", "loop, 99 %"]
    checked = wall_check.run_both_clocks(stage, LAB, seconds, heads, lambda of: read(of, seconds))
    wall_check.plot_queues(stage, checked)
    quo, ours = (of.values for of in checked)
    what = "mean queue at the bottleneck in ms, 10 flows"
    wall_check.claim(stage, what, "about 2 for one flow", ours[1], 0, 16)
    what = "the same over status quo"
    wall_check.claim(stage, what, "0.1 to 0.2 × for one flow", ours[1] / quo[1], 0, 0.5)
    what = "goodput over status quo, 10 flows"
    wall_check.claim(stage, what, "the same", ours[0] / quo[0], 0.93)
    what = "queue at the sendbox over that at the bottleneck, 10 flows"
    wall_check.claim(stage, what, "the queue is at the sendbox", ours[2] / ours[1], 1)


@wall_check.checked_figure(
    "backlogged", "figure 2: the queue of backlogged flows moves to the sendbox", "3 min", check
)
def backlogged(stage: Stage) -> None:
    seconds, flows = stage.size(60, 20), (1, 10, 100)
    common = {"lab.duration": f"{seconds} s"}
    settings = {str(streams): {"flow.bulk.streams": streams, **common} for streams in flows}
    pairs = run_pairs(stage, LAB, settings, 3)
    table = stage.table(
        "Means after 10 s over seeds: Mbit/s, and ms of queue at the bottleneck and the sendbox; "
        "round trips of small requests in ms",
        ["flows", "boxes", "goodput", "bottleneck", "sendbox", "loop, median", "99 %"],
    )
    for streams, pair in zip(flows, pairs):
        columns = [zip(*(read(run, seconds) for run in runs)) for runs in pair]
        quo, ours = ([moments(values).mean for values in of] for of in columns)
        for label, values in (("status quo", quo), ("Bundler", ours)):
            table.row(streams, label, *(f"{value:.1f}" for value in values))
        claims(stage, "1 flow" if streams == 1 else f"{streams} flows", quo, ours)
    plot(stage, *(runs[0] for runs in pairs[0]))


def claims(stage: Stage, flows: str, quo: list[float], ours: list[float]) -> None:
    queue, sendbox = ours[1:3]
    what, paper = f"mean queue at the bottleneck, {flows}", "about 2 ms for one flow"
    # The smaller of 25 % of 50 ms and 8 ms.
    stage.expect(what, paper, queue, "at most 8 ms", f"{queue:.1f} ms; status quo {quo[1]:.1f} ms")
    what = f"goodput over status quo, {flows}"
    stage.expect(what, "the same", ours[0] / quo[0], "at least 0.97 ×")
    stage.claim(
        f"where {flows} wait",
        "the queue is at the sendbox (here: longer than at the bottleneck)",
        f"{sendbox:.1f} ms at the sendbox, {queue:.1f} ms at the bottleneck",
        sendbox > queue,
    )


def plot(stage: Stage, quo: Run, ours: Run) -> None:
    note = "Means of 100 ms. The paper's bottleneck queue with Bundler is constant at 15 packets."
    title, y, limits = "Where one flow waits", "ms to send the queue", (0, None)
    shown = stage.plot(title, "time in s", y, xlim=limits, ylim=limits, note=note)
    (before, _), (after, sendbox) = waits(quo), waits(ours)
    shown.line("bottleneck, status quo", coarse(before, 0.1))
    shown.line("bottleneck, Bundler", coarse(after, 0.1))
    shown.line("sendbox, Bundler", coarse(sendbox, 0.1))
    end, paper = after[-1][0], 15 * 1.5 * 8 / BOTTLENECK_MBITS
    shown.line("bottleneck, Bundler (paper)", [(0, paper), (end, paper)], style="reference")
    table = stage.table("Bottleneck of one flow in full packets", ["", "25 %", "75 %"])
    for label, points in (("status quo", before), ("Bundler", after)):
        packets = [ms * BOTTLENECK_MBITS / 12 for ms in between(points, SETTLED_S, end)]
        table.row(label, *(f"{quantile(packets, share):.0f}" for share in (0.25, 0.75)))
    table.row("paper, status quo", "90", "150")
    table.row("paper, Bundler", "15", "15")


# %%
if __name__ == "__main__":
    backlogged.main()
