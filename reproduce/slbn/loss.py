# %% [markdown]
"""# SLBN, beyond the paper: lost control packets
SLBN keeps the only copy of the state of a session in its packet. With epochs, a source repeats a
lost packet, and links replace their sums once in an epoch by those that they counted in it.

The paper leaves lost packets to “classical techniques”. Without any, a session whose packet is lost
keeps its rate for ever or never gets one, and its links keep what they counted of it. With epochs,
a source sends its packet again, and links replace their sums once in an epoch by those that they
counted in it.
"""

# %%
from netarium_papers import Evidence, Stage, figure
from netarium_papers.slbn import NAMES, accuracy
from netarium_papers.slbn.protocol_run import ProtocolRun, job

LOSSES_PERCENT = (0, 1, 5)
# All have joined and left, and links with epochs have counted again.
SETTLED_S = 5
# The mean absolute error of all sessions then, without loss.
MAX_ERROR_PERCENT = 1
SHORT = {
    "sessions.first.count": 1000,
    "sessions.first.leave_count": 500,
    "sessions.second.count": 500,
}
# By protocol and loss in %.
Runs = dict[tuple[str, int], ProtocolRun]


@figure(
    "loss",
    "beyond the paper: SLBN where control packets get lost, with epochs and without",
    "5 min",
    "virtual",
)
def errors_by_loss(stage: Stage) -> None:
    keys = [(name, loss) for name in ("slbn", "slbn-epochs") for loss in LOSSES_PERCENT]
    jobs = [
        job(stage, "loss", name, SHORT, f"-{loss}").set("control.loss", f"{loss} %")
        for name, loss in keys
    ]
    runs: Runs = {
        (name, loss): ProtocolRun(run, f"{NAMES[name]}, {loss} % lost")
        for (name, loss), run in zip(keys, stage.run(jobs))
    }
    every, end = list(runs.values()), runs[keys[0]].end
    for place in ("source", "bottleneck"):
        # Six bands above each other would hide the lines.
        title, ylim = f"Errors at {place}s", (-100, 60)
        accuracy.plot_errors(stage, title, every, place, 0.0, end, has_bands=False, ylim=ylim)
    y = "ms to send the longest queue"
    accuracy.plot_samples(stage, "Longest queue", y, every, "queue_ms", log="y")
    table = stage.table(
        f"After {SETTLED_S} s, in the mean: amount of the errors of all sessions (one without a "
        "rate is 100 % off), how many have none, and errors at bottlenecks, in %; numbers that a "
        "link keeps",
        ["run", "lost", "all sessions", "without a rate", "bottlenecks", "state"],
    )
    for run in every:
        columns = ("error_of_all", "without_rate", "bottleneck_mean")
        means = [accuracy.cell(run.moments(column, SETTLED_S, run.end).mean) for column in columns]
        table.row(run.label, run.summary["lost"], *means, run.summary["link_numbers_max"])
    accuracy.table_errors(stage, every, [1.0, 2.0, 3.0, 4.0, end])
    claims(stage, runs)


def claims(evidence: Evidence, runs: Runs) -> None:
    for loss in sorted({loss for _, loss in runs}):
        plain, epochs = (
            run.moments("error_of_all", SETTLED_S, run.end).mean
            for run in (runs["slbn", loss], runs["slbn-epochs", loss])
        )
        exact = f"the exact rates (here: at most {MAX_ERROR_PERCENT} %)"
        is_exact = plain <= MAX_ERROR_PERCENT and epochs <= MAX_ERROR_PERCENT
        evidence.claim(
            f"mean amount of the errors of all sessions after the changes, {loss} % lost",
            "not in the paper (expected: smaller with epochs)" if loss else exact,
            f"{plain:.2f} % without epochs, {epochs:.2f} % with",
            epochs < plain if loss else is_exact,
        )
    for run in (run for (name, _), run in runs.items() if name == "slbn-epochs"):
        over = run.moments("bottleneck_mean", SETTLED_S, run.end)
        what = f"rates at bottlenecks after the changes ({run.label})"
        ours = f"{over.mean:+.2f} %, at most {over.max:+.2f} %"
        evidence.expect(what, "", over.max, f"{accuracy.OVER} over", ours)


# %%
if __name__ == "__main__":
    errors_by_loss.main()
