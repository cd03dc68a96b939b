# %% [markdown]
"""# SLBN, figures 5 and 6
Experiment 1b: completion times of sessions that send an amount of data, and how queues grow
meanwhile. The paper's figure of the times ranges from 1.5 to 5 s.

The time of a session is from its joining to the arrival of its last packet. The figure of the paper
has times from 1.5 to 5 s.
"""

# %%
import math
from typing import Optional, Sequence

from netarium_papers import Evidence, Run, Stage, figure, moments
from netarium_papers.slbn import accuracy
from netarium_papers.slbn.protocol_run import ProtocolRun, protocol_runs

PROTOCOLS = ("slbn", "bfyz", "erica", "rcp", "piqi-rcp", "cobb-gouda", "b-neck")
# The paper calls their completion times similar to SLBN's: up to this factor.
SIMILAR, MAX_RATIO = ("bfyz", "erica", "piqi-rcp", "cobb-gouda"), 1.5
PACKET_BYTES = 2000
# Limits of the bins of session sizes in packets. The sizes have a Pareto distribution from 225:
# three in four are below 320, one in a thousand is above 1,265.
LIMITS = (0, 250, 275, 300, 350, 400, 500, 700, 1000, math.inf)
# The last session joined 0.5 s before; a queue that grows by less than this later is bounded.
SETTLED_S, MAX_GROWTH = 1, 1.05
# Cobb-Gouda's largest queues in the first 3 s in the paper, and by which factor these may differ.
COBB_GOUDA_PACKETS, FACTOR = (5293, 8265, 4775), 2
# The size of a session in packets, and its completion time in s if it has completed.
Sessions = Sequence[tuple[float, Optional[float]]]


def sessions(run: Run) -> Sessions:
    columns = ("size_bytes", "start_ns", "completed_ns")
    found = run.frame("sessions").select(columns).drop_nulls(columns[:2])
    return [
        (size / PACKET_BYTES, None if end is None else (end - start) / 1e9)
        for size, start, end in found.iter_rows()
    ]


def mean_time(of: Sessions) -> tuple[float, int]:
    """The mean completion time, and the number of sessions that did not complete."""
    times = [seconds for _, seconds in of if seconds is not None]
    return moments(times).mean, len(of) - len(times)


def bins(of: Sessions) -> list[tuple[float, float, int, int]]:
    """Mean size, mean completion time, number, and number completed, by size.

    Bins without a completed session are omitted.
    """
    found = []
    for low, high in zip(LIMITS, LIMITS[1:]):
        own = [session for session in of if low <= session[0] < high]
        size, (time, missing) = moments(packets for packets, _ in own), mean_time(own)
        found.append((size.mean, time, size.count, size.count - missing))
    return [one for one in found if one[3]]


def largest_queue(run: ProtocolRun, start: float = 0.0, end: float = math.inf) -> int:
    """In packets."""
    return int(max((packets for _, packets in run.points("queue", start, end)), default=0))


def bounded(run: ProtocolRun) -> tuple[int, int, bool]:
    """The largest queue until all have joined and settled, that of later, and if it is bounded."""
    first, later = largest_queue(run, 0, SETTLED_S), largest_queue(run, SETTLED_S)
    return first, later, later <= first * MAX_GROWTH


@figure(
    "1b",
    "completion times by size and queues of finite sessions (figures 5 and 6)",
    "20 min",
    "virtual",
)
def completion_and_queues(stage: Stage) -> None:
    runs = protocol_runs(stage, "1b", PROTOCOLS, {"sessions.finite.count": 2000})
    finite = {name: sessions(run.run) for name, run in runs.items()}
    plot = stage.plot(
        "Figure 5: mean completion time by session size",
        "packets of a session",
        "completion time in s",
        log="x",
        ylim=(0, None),
    )
    for name, run in runs.items():
        plot.line(run.label, [(packets, seconds) for packets, seconds, *_ in bins(finite[name])])
    title, y = "Figure 6: largest queue", "packets in the largest queue"
    accuracy.plot_samples(stage, title, y, runs.values(), "queue", log="y")
    small = [runs[name] for name in ("slbn", "bfyz", "b-neck")]
    title += ", the smallest of them"
    accuracy.plot_samples(stage, title, y, small, "queue", ylim=(0, None))
    table_summary(stage, runs, finite)
    heads = ["protocol", "packets", "sessions", "done", "mean time"]
    table = stage.table("Completion times by size of the session", heads)
    for name, run in runs.items():
        for packets, seconds, count, completed in bins(finite[name]):
            table.row(run.label, f"{packets:.0f}", count, completed, f"{seconds:.3f} s")
    accuracy.table_cost(stage, runs.values())
    first, later, is_bounded = bounded(runs["slbn"])
    stage.claim(
        "largest queue (SLBN)",
        f"bounded (here: no larger after {SETTLED_S} s than before)",
        f"{first} packets until {SETTLED_S} s, {later} later",
        is_bounded,
    )
    missing = mean_time(finite["slbn"])[1]
    what = "sessions that are not done at the end (SLBN)"
    stage.claim(what, "none", str(missing), missing == 0)
    # Few sessions in a small network do not show the queues of the others in a large one.
    if not stage.short:
        claim_queues(stage, runs)
        claim_completion(stage, runs, {name: mean_time(of)[0] for name, of in finite.items()})


def table_summary(
    evidence: Evidence, runs: dict[str, ProtocolRun], finite: dict[str, Sessions]
) -> None:
    table = evidence.table(
        "Completion times; largest queues in packets; the longest time that a link needed "
        "to send what waited for it",
        ["protocol", "mean time", "not done", "0–1 s", "1–2 s", "2–3 s", "later", "longest"],
    )
    for name, run in runs.items():
        time, missing = mean_time(finite[name])
        queues = [largest_queue(run, *of) for of in ((0, 1), (1, 2), (2, 3), (3, math.inf))]
        longest = f"{run.moments('queue_ms').max:.0f} ms"
        table.row(run.label, f"{time:.2f} s", missing, *queues, longest)


def claim_queues(evidence: Evidence, runs: dict[str, ProtocolRun]) -> None:
    """The paper does not have B-Neck."""
    others = [run for name, run in runs.items() if name != "b-neck"]
    found = ", ".join(run.label for run in others if bounded(run)[2]) or "none"
    evidence.claim("whose largest queue is bounded", "SLBN's alone", found, found == "SLBN")
    order = sorted(others, key=largest_queue, reverse=True)
    evidence.claim(
        "largest queues over the whole time, in packets",
        "Cobb-Gouda and PIQI-RCP stress the links most",
        ", ".join(f"{run.label} {largest_queue(run)}" for run in order),
        {run.label for run in order[:2]} == {"Cobb-Gouda", "PIQI-RCP"},
    )
    queues = [largest_queue(runs["cobb-gouda"], start, start + 1) for start in range(3)]
    evidence.claim(
        "largest queue in each of the first three seconds (Cobb-Gouda)",
        "5,293, 8,265 and 4,775 packets (here: within a factor of 2)",
        f"{', '.join(map(str, queues))} packets",
        all(
            paper / FACTOR <= queue <= paper * FACTOR
            for queue, paper in zip(queues, COBB_GOUDA_PACKETS)
        ),
    )


def claim_completion(
    evidence: Evidence, runs: dict[str, ProtocolRun], times: dict[str, float]
) -> None:
    """Mean completion times in s, compared with SLBN's."""
    slbn = times["slbn"]
    ratios = {runs[name].label: times[name] / slbn for name in SIMILAR}
    evidence.claim(
        "mean completion times over SLBN's",
        f"similar for BFYZ, ERICA, PIQI-RCP, Cobb-Gouda (here: up to {MAX_RATIO} times)",
        f"{', '.join(f'{name} {of:.2f}' for name, of in ratios.items())} times SLBN's {slbn:.2f} s",
        all(1 / MAX_RATIO <= ratio <= MAX_RATIO for ratio in ratios.values()),
    )
    evidence.claim(
        "mean completion time (RCP)",
        f"much worse than SLBN's (here: more than {MAX_RATIO} times)",
        f"{times['rcp']:.2f} s, {times['rcp'] / slbn:.2f} times",
        times["rcp"] > slbn * MAX_RATIO,
    )


# %%
if __name__ == "__main__":
    completion_and_queues.main()
