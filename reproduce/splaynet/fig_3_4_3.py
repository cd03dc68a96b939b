# %% [markdown]
"""# SplayNet, section 3.4.3
1, 2, 4, 8 … topologies at the same time on one machine. Each should measure what it measures alone,
until the machine is at its limit, which the runs must report.
"""

# %%
from typing import Any, NamedTuple, Optional

from netarium_papers import Job, Moments, PaperError, Points, Run, Stage, figure, moments

MAX_COPIES = 512
ATTEMPTS = 3  # Attempts after which a number of copies is the limit.
SETTLED_S = 3.0  # Slow start is over.
# Maximum differences of a copy from one alone; stalls of a machine are as long.
GOODPUT_TOLERANCE, ROUND_TRIP_TOLERANCE_MS = 0.01, 2.0
MACHINE = 4  # Exit code if the machine lacks something.


class Measured(NamedTuple):
    """The results of a copy; `late_us` is p99.9 of the lateness of its packets."""

    goodput_mbit: float = 0.0
    mean_ms: float = 0.0
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    lost: int = 0
    late_us: float = 0.0


def measured(run: Run) -> Optional[Measured]:
    """The results; None if there are none because the machine is overloaded."""
    latency = run.flow("calls")["latency"]
    late = run.record["lateness"]["distribution"]
    if latency is None or late is None:
        if run.trusted:
            raise PaperError(f"run {run.folder} has no round trip or no packet")
        return None
    rates = run.flow_rate("bulk", 1.0)
    return Measured(
        moments(rate for at, rate in rates if at > SETTLED_S).mean / 1e6,
        latency["mean_ns"] / 1e6,
        latency["p50_ns"] / 1e6,
        latency["p99_ns"] / 1e6,
        run.flow("voice")["lost_datagrams"] or 0,
        late["p999_ns"] / 1e3,
    )


class Copies:
    """Runs at the same time."""

    def __init__(self, runs: list[Run], attempts: int) -> None:
        self.count, self.attempts = len(runs), attempts
        self.measured = [of for of in map(measured, runs) if of]
        reasons = ["; ".join(run.verdict.reasons) for run in runs if not run.trusted]
        self.untrusted, self.reason = len(reasons), (reasons or [""])[0]
        loads = [run.record["load"] for run in runs if run.record.get("load")]
        self.busy = max((load["busy"] for load in loads), default=0.0)
        others = max((load["other_labs"] for load in loads), default=0)
        self.other_labs = max(others + 1 - len(runs), 0)

    def moments(self, key: str) -> Moments:
        return moments(getattr(of, key) for of in self.measured)

    def off(self, alone: Measured, key: str) -> float:
        """The largest difference of a copy from one alone."""
        of = (abs(getattr(of, key) - getattr(alone, key)) for of in self.measured)
        return max(of, default=0.0)


@figure(
    "3.4.3",
    "1, 2, 4, 8 … topologies at once, each of which sees what it sees alone",
    "4 min",
    "wall",
)
def concurrent_topologies(stage: Stage) -> None:
    most = stage.size(MAX_COPIES, 4)
    for model in stage.models():
        note = f"The machine's limit is above {most} at once."
        found = [gather(stage, model, 1)]
        while not found[-1].untrusted and (copies := 2 * found[-1].count) <= most:
            try:
                found.append(gather(stage, model, copies))
            except PaperError as error:
                if error.exit_code != MACHINE:
                    raise
                reason = str(error).split("; repeat: ")[0]
                note = f"{copies} at once could not be started: {reason}."
                break
        show(stage, model, found)
        limit = found[-1]
        if not limit.untrusted:
            note_once(stage, note)
        elif limit.count > 1:
            stage.claim(
                f"{limit.count} at once are too many: {limit.untrusted} were not trusted in the "
                f"last of {limit.attempts} tries ({model})",
                "no limit is printed",
                f"the verdict: {limit.reason}",
                "busy" in limit.reason and "other labs ran" in limit.reason,
            )


def note_once(stage: Stage, text: str) -> None:
    """Adds a note that may be equal for both models."""
    if text not in stage.notes:
        stage.note(text)


def gather(stage: Stage, model: str, copies: int) -> Copies:
    """Copies at once; again if untrusted, because any machine may stall once."""
    for attempt in range(1, ATTEMPTS + 1):
        jobs = [
            Job("splaynet/concurrent.toml", f"{model}-{copies}-at-once-{n}-try-{attempt}", "wall")
            .set("lab.model", model)
            .set("lab.duration", stage.size("10 s", "5 s"))
            for n in range(1, copies + 1)
        ]
        runs = stage.run(jobs, together=True, tries=1)
        found = Copies(runs, attempt)
        if not found.untrusted:
            break
        # A single copy that is never trusted is not a limit of many.
        if copies > 1 or attempt < ATTEMPTS:
            stage.met_the_limit(runs)
    return found


def show(stage: Stage, model: str, found: list[Copies]) -> None:
    """Adds claims, a table, plots and notes."""
    heads = ["at once", "trusted", "tries", "machine busy{:.0f} %"]
    heads += ["goodput in Mbit/s: least, mean, most", "round trip in ms: p50{:.2f}"]
    heads += ["p99, worst copy{:.2f}", "lost datagrams", "lateness p99.9 in µs, worst copy{:.0f}"]
    table = stage.table(f"What each copy sees ({model})", heads)
    alone = (found[0].measured or [Measured()])[0]
    for of in found:
        goodput, lost = of.moments("goodput_mbit"), sum(one.lost for one in of.measured)
        runs = (of.count, f"{of.count - of.untrusted} of {of.count}", of.attempts, of.busy * 100)
        rates = f"{goodput.min:.3f}, {goodput.mean:.3f}, {goodput.max:.3f}"
        round_trips = (of.moments("p50_ms").mean, of.moments("p99_ms").max)
        table.row(*runs, rates, *round_trips, lost, of.moments("late_us").max)
        if of.count > 1 and not of.untrusted:
            off = of.off(alone, "goodput_mbit") / alone.goodput_mbit
            mean, p99 = of.off(alone, "mean_ms"), of.off(alone, "p99_ms")
            stage.claim(
                f"each of {of.count} at once, against what it sees alone ({model})",
                "the same as alone, if placement regards the machines",
                f"goodput within {off * 100:.2f} %, mean round trip within {mean:.3f} ms, p99 "
                f"within {p99:.3f} ms",
                off <= GOODPUT_TOLERANCE and max(mean, p99) <= ROUND_TRIP_TOLERANCE_MS,
            )
        if of.other_labs:
            note_once(
                stage,
                f"{of.other_labs} other labs ran at the same time as the {of.count}, which had "
                "less of the machine.",
            )
    plots(stage, model, found, alone)


def plots(stage: Stage, model: str, found: list[Copies], alone: Measured) -> None:
    most = max(2, *(of.count for of in found))

    def each(key: str) -> Points:
        return [(of.count, getattr(one, key)) for of in found for one in of.measured]

    x: dict[str, Any] = {"x": "topologies at once", "xlim": (1, most)}
    plot = stage.plot(f"Goodput of each copy ({model})", y="Mbit/s", log="x", ylim=(0, None), **x)
    plot.line("each copy", each("goodput_mbit"), style="dots")
    plot.line("alone", [(1, alone.goodput_mbit), (most, alone.goodput_mbit)], style="reference")
    plot = stage.plot(f"Round trips of each copy ({model})", y="ms", log="x", ylim=(0, None), **x)
    plot.line("p99 of each copy", each("p99_ms"), style="dots")
    plot.line("p50, mean of copies", [(of.count, of.moments("p50_ms").mean) for of in found])
    plot.line("alone", [(1, alone.p50_ms), (most, alone.p50_ms)], style="reference")
    plot = stage.plot(f"Lateness of packets, p99.9 ({model})", y="µs", log="xy", **x)
    plot.line("each copy", each("late_us"), style="dots")


# %%
if __name__ == "__main__":
    concurrent_topologies.main()
