# %% [markdown]
"""# SplayNet, figure 3.6c
One bulk TCP stream over 10 Mbit/s. The paper's emulator is steady at the limit; those that it is
compared with oscillate, because their queues overflow.

Streams have the paper's default window of 64 kB, less than the queue of 100 slots: nothing is lost.
Those with a larger window fill the queue and lose packets; the receiver waits for what was lost and
then gets all at once: its goodput varies although the link is never idle, as in the emulators that
the paper compares with.
"""

# %%
from netarium_papers import Evidence, Job, Moments, Run, Stage, figure, moments
from netarium_papers.splaynet import PAYLOAD

LIMIT_MBIT = 10 * PAYLOAD
SETTLED_S = 2.0  # Slow start is over.


def goodput(run: Run, step_s: float) -> list[tuple[float, float]]:
    return [(at, rate / 1e6) for at, rate in run.flow_rate("bulk", step_s)]


def settled(run: Run, step_s: float) -> Moments:
    return moments(rate for at, rate in goodput(run, step_s) if at > SETTLED_S)


def label(run: Run) -> str:
    return run.label + (", window beyond 100 slots" if run.job.name == "slots" else "")


@figure("3.6c", "goodput of one TCP stream over 10 Mbit/s", "1 min", "wall virtual")
def goodput_over_10_mbit(stage: Stage) -> None:
    jobs = []
    for clock, model in stage.settings():
        job = Job("splaynet/bulk.toml", "bulk", clock, model)
        jobs.append(job.set("lab.duration", stage.size("60 s", "8 s")))
        if model == "hop":
            jobs.append(jobs[-1].named("slots").set("flow.bulk.window", "6 MiB"))
    runs = stage.run(jobs, together=True)
    title = "Goodput in Mbit/s, without the first 2 s"
    table = stage.table(title, ["run", "step", "mean", "deviation", "least", "most"])
    for run in runs:
        for step, name in ((1.0, "1 s"), (0.1, "100 ms")):
            table.row(label(run), name, *(f"{value:.4f}" for value in settled(run, step)[1:]))
        claims(stage, run, runs)
    for step, name, ylim in ((1.0, "1 s", (7, 12)), (0.1, "100 ms", (0, 20))):
        title = f"Goodput in steps of {name}"
        plot = stage.plot(title, "time in s", "goodput in Mbit/s", ylim=ylim)
        for run in runs:
            plot.line(label(run), goodput(run, step))
        ends = [(0.0, LIMIT_MBIT), (max(run.elapsed_s for run in runs), LIMIT_MBIT)]
        plot.line("limit: 1448 B of payload in 1538 B on the wire", ends, style="reference")


def claims(evidence: Evidence, run: Run, runs: list[Run]) -> None:
    if run.job.name == "slots":
        same = [other for other in runs if other.label == run.label and other.job.name == "bulk"]
        deviation, steady = settled(run, 0.1).deviation, settled(same[0], 0.1).deviation
        evidence.claim(
            f"deviation in steps of 100 ms ({label(run)})",
            "oscillates (ModelNet, Emulab)",
            f"{deviation:.3f} Mbit/s; {steady:.3f} with a window of 64 kB",
            deviation > 3 * steady,
        )
        return
    of = settled(run, 1.0)
    evidence.claim(
        f"every second ({label(run)})",
        "9 to 10 Mbit/s",
        f"{of.min:.3f} to {of.max:.3f} Mbit/s, deviation {of.deviation:.4f}",
        of.min >= 9 and of.max <= 10,
    )
    share = of.mean / LIMIT_MBIT
    evidence.claim(
        f"mean ({label(run)})",
        f"steady at the limit, {LIMIT_MBIT:.3f} Mbit/s",
        f"{of.mean:.3f} Mbit/s, {share * 100:.2f} % of it",
        0.99 <= share <= 1.001,
    )


# %%
if __name__ == "__main__":
    goodput_over_10_mbit.main()
