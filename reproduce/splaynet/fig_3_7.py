# %% [markdown]
"""# SplayNet, figure 3.7
Three TCP streams start one after the other, share a link of 10 Mbit/s, and end. In each phase
between a start or an end and the next, each stream should get an equal share.

Collapsed paths have their shares from the model within a round trip of each start and end. With a
drop-tail queue (hop) shares depend on TCP: a later stream needs tens of losses until the windows of
CUBIC are equal, which takes longer than phases of a few seconds. In the long run shares are near
the fair ones, and rates per second vary with the windows. With fair queueing at the shared link the
hop model has the same shares as the collapsed model: the difference is due to the queue and TCP,
not to the emulator.

Runs on the wall clock are made in parallel, those with fair queueing after the others: each
transfers 10 Mbit/s and takes about a tenth of a core.
"""

# %%
import itertools
import math
from typing import NamedTuple, Optional, Sequence

from netarium_papers import Job, Moments, Points, Run, Stage, Table, figure, moments
from netarium_papers.splaynet import PAYLOAD

TOPOLOGIES = {
    "fan-out": "N → R → 3N",
    "fan-in": "3N → R → N",
    "dumbbell": "3N → R → R → 3N",
}
STREAMS = ("stream-1", "stream-2", "stream-3")
LINK_MBIT = 10.0
STEP_S = 0.1  # The labs' sampling interval.
ROUNDING_S = 1e-6
# Maximum deviation from the share with a drop-tail queue, in phases long enough for TCP.
TCP_TOLERANCE, LONG_PHASE_S = 0.2, 30
FAIR = "-fair"  # Suffix of the names of jobs with fair queueing at the shared link.


class Scale(NamedTuple):
    """Sizes of a run; `tolerance` is the maximum deviation from shares that are enforced.

    Streams start `apart_s` one after the other. Of each phase the first `settle_s` are omitted;
    a phase with less than `min_s` left is.
    """

    megabytes: int
    apart_s: int
    settle_s: float
    min_s: float
    tolerance: float

    @property
    def min_end_s(self) -> float:
        """When the last byte arrives if the link is never idle."""
        return len(STREAMS) * self.megabytes * 8 / PAYLOAD / LINK_MBIT

    def job(self, name: str, lab: str, clock: str, model: str) -> Job:
        job = Job(f"splaynet/{lab}.toml", name, clock, model)
        for place, stream in enumerate(STREAMS):
            job = job.set(f"flow.{stream}.size", f"{self.megabytes} MB")
            job = job.set(f"flow.{stream}.start", f"{place * self.apart_s} s")
        return job


Times = Sequence[tuple[float, float]]
FULL, SHORT = Scale(50, 5, 1, 1.0, 0.03), Scale(5, 2, 0.4, 0.5, 0.1)


class Phase(NamedTuple):
    """A time in which the same streams (their numbers) are active."""

    start: float
    end: float
    streams: tuple[int, ...]


class Share(NamedTuple):
    """The rates in Mbit/s of a stream in a phase: the mean, and moments of whole seconds."""

    phase: Phase
    stream: int
    mean: float
    seconds: Moments

    @property
    def fair(self) -> float:
        return LINK_MBIT / len(self.phase.streams)

    @property
    def off(self) -> float:
        return self.mean / self.fair - 1


def phases(times: Times, settle_s: float, min_s: float) -> list[Phase]:
    """The phases with any stream, from the start and end of each."""
    cuts = sorted(cut for pair in times for cut in pair)
    found = []
    for start, end in zip(cuts, cuts[1:]):
        active = (n for n, (a, b) in enumerate(times) if a < (start + end) / 2 < b)
        found.append(Phase(start + settle_s, end, tuple(active)))
    return [phase for phase in found if phase.streams and phase.end - phase.start >= min_s]


def share(phase: Phase, stream: int, rates: Points) -> Optional[Share]:
    """The rates in a phase, from those in steps; None without a step."""
    start, end = phase.start + STEP_S / 2 - ROUNDING_S, phase.end - STEP_S / 2 + ROUNDING_S
    inside = [rate for at, rate in rates if start <= at <= end]
    steps = round(1 / STEP_S)
    seconds = (sum(inside[n : n + steps]) / steps for n in range(0, len(inside) - steps + 1, steps))
    return Share(phase, stream, moments(inside).mean, moments(seconds)) if inside else None


def is_enforced(run: Run) -> bool:
    """Whether shares do not depend on TCP."""
    return run.model == "collapsed" or run.job.name.endswith(FAIR)


def label(run: Run) -> str:
    if run.model == "collapsed":
        return run.label
    return f"{run.label}, {'fair queueing' if is_enforced(run) else 'drop-tail'}"


def wire(run: Run, stream: str, step_s: float) -> Points:
    return [(at, rate / PAYLOAD / 1e6) for at, rate in run.flow_rate(stream, step_s)]


@figure(
    "3.7", "three streams share a link of 10 Mbit/s as they come and go", "5 min", "wall virtual"
)
def shares_of_streams(stage: Stage) -> None:
    scale = stage.size(FULL, SHORT)
    jobs, fair = [], []
    for lab in TOPOLOGIES:
        for clock, model in stage.settings():
            jobs.append(scale.job(lab, lab, clock, model))
            if model == "hop":
                job = scale.job(lab + FAIR, lab, clock, model)
                fair.append(job.set("link.shared.queue", "fq-codel"))
    # All of them together might be too many for two cores.
    runs = stage.run(jobs, together=True) + stage.run(fair, together=True)
    for lab, title in TOPOLOGIES.items():
        heads = ["run", "phase", "stream", "share{:.2f}", "mean{:.3f}", "off by{:+.2f} %"]
        heads += ["deviation of 1 s{:.3f}", "least{:.3f}", "most{:.3f}"]
        table = stage.table(f"{title}: Mbit/s of wire", heads)
        for run in runs:
            if run.job.name in (lab, lab + FAIR):
                streams(stage, run, title, scale, table)
    stage.note(
        "Rates are of wire: received payload with its headers, 1538 bytes for 1448. The first "
        f"{scale.settle_s} s of each phase are omitted. {len(STREAMS)} x {scale.megabytes} MB "
        f"take {scale.min_end_s:.1f} s at 10 Mbit/s of wire; the paper's streams used less."
    )


def streams(stage: Stage, run: Run, title: str, scale: Scale, table: Table) -> None:
    flows = [run.flow(stream) for stream in STREAMS]
    ends = [run.elapsed_s if of["ended_s"] is None else of["ended_s"] for of in flows]
    starts = [end if of["started_s"] is None else of["started_s"] for of, end in zip(flows, ends)]
    times, last = list(zip(starts, ends)), max(ends)
    rates = [wire(run, stream, STEP_S) for stream in STREAMS]
    found = [
        share(phase, stream, rates[stream])
        for phase in phases(times, scale.settle_s, scale.min_s)
        for stream in phase.streams
    ]
    shares(stage, run, title, scale, table, [of for of in found if of])
    stage.claim(
        f"{title}: all is delivered ({label(run)})",
        "after about 150 s",
        f"after {last:.1f} s; {scale.min_end_s:.1f} s if the link is never idle",
        all(of["completion_s"] is not None for of in flows)
        and 0.99 <= last / scale.min_end_s <= 1.05,
    )
    plot = stage.plot(
        f"{title}, {label(run)}",
        "time in s",
        "rate on the wire in Mbit/s",
        xlim=(0, None),
        ylim=(0, 12),
        note="Received payload with its headers, each second.",
    )
    for stream, (start, end) in zip(STREAMS, times):
        points = [of for of in wire(run, stream, 1.0) if start - 0.5 < of[0] < end + 0.5]
        plot.line(stream.replace("-", " "), points)
    for name, count in (("10", 1), ("5", 2), ("3.33", 3)):
        points = [(0.0, LINK_MBIT / count), (math.ceil(last), LINK_MBIT / count)]
        plot.line(f"{name} Mbit/s", points, style="reference")


def shares(
    stage: Stage, run: Run, title: str, scale: Scale, table: Table, found: list[Share]
) -> None:
    """Fills the table of a topology, and claims the shares."""
    for of in found:
        seconds = of.seconds[2:] if of.seconds.count else "–––"
        span = f"{of.phase.start:.1f} to {of.phase.end:.1f} s"
        table.row(label(run), span, of.stream + 1, of.fair, of.mean, of.off * 100, *seconds)
    off = max((abs(of.off) for of in found), default=0.0)
    long = [abs(of.off) for of in found if of.phase.end - of.phase.start >= LONG_PHASE_S]
    spread = max((of.seconds.deviation / of.fair for of in found), default=0.0)
    means = " | ".join(
        " ".join(f"{of.mean:.2f}" for of in group)
        for _, group in itertools.groupby(found, lambda of: of.phase)
    )
    ours = f"{means} Mbit/s; at most {off * 100:.1f} % off, seconds spread by up to "
    ours += f"{spread * 100:.1f} %"
    paper = "10 | 5 5 | 3.3 3.3 3.3 | 5 5 | 10 Mbit/s"
    if is_enforced(run):
        holds = bool(found) and off <= scale.tolerance
        stage.claim(f"{title}: shares in each phase ({label(run)})", paper, ours, holds)
    elif long:
        stage.claim(
            f"{title}: shares in the phases of over {LONG_PHASE_S} s ({label(run)})",
            paper,
            f"at most {max(long) * 100:.1f} % off (allowed {TCP_TOLERANCE * 100:.1f} %); "
            f"in all phases {ours}",
            max(long) <= TCP_TOLERANCE,
        )


# %%
if __name__ == "__main__":
    shares_of_streams.main()
