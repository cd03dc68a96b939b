# %% [markdown]
"""# SLBN, beyond the paper: a failed link
A link of the core fails and returns while sessions go on.

Sessions that crossed the link take the next shortest path at once and join there; their old packets
are lost with the link, and nothing corrects what the neighbours of the link counted of them. With
epochs, links replace these sums. With the other protocols all links forget all sessions, and all
sessions join again.
"""

# %%
from netarium_papers import Evidence, Stage, figure
from netarium_papers.slbn import accuracy
from netarium_papers.slbn.protocol_run import ProtocolRun, protocol_runs

FAILS_S, RETURNS_S = 2.0, 5.0
# Two epochs after a change, links have counted again: the mean absolute error of all sessions.
RECOVERY_S, ERROR = 2.5, "at most 5 %"
TABLE_S = [FAILS_S, 2.05, 2.1, 2.2, 2.5, 3.0, 4.0, RETURNS_S, 5.05, 5.1, 5.2, 5.5, 6.0]


@figure("failure", "beyond the paper: a link of the core fails and returns", "3 min", "virtual")
def errors_after_failure(stage: Stage) -> None:
    protocols = ("slbn-epochs", "slbn", "bfyz")
    runs = protocol_runs(stage, "failure", protocols, {"sessions.all.count": 1000})
    every, end = list(runs.values()), runs["slbn-epochs"].end
    for place in ("source", "bottleneck"):
        accuracy.plot_errors(stage, f"Errors at {place}s", every, place, 1.0, end, ylim=(-60, 60))
    title = "Mean amount of the errors of all sessions"
    accuracy.plot_samples(stage, title, "error in %", every, "error_of_all", log="y")
    accuracy.table_errors(stage, every, [*TABLE_S, end])
    accuracy.table_cost(stage, every)
    claims(stage, runs)


def claims(evidence: Evidence, runs: dict[str, ProtocolRun]) -> None:
    rerouted = runs["slbn-epochs"].summary["rerouted"]
    evidence.claim(
        "changes of path",
        "not in the paper (expected: sessions leave the failed link and return)",
        str(rerouted),
        rerouted > 0,
    )
    for run in runs.values():
        # At the time of the return, sessions are on new paths and have no rate.
        for since, until, what in (
            (FAILS_S, RETURNS_S - 1e-3, "the link failed"),
            (RETURNS_S, run.end, "it returned"),
        ):
            error = run.moments("error_of_all", since + RECOVERY_S, until)
            what = f"mean amount of the errors of all sessions, {RECOVERY_S} s after {what}"
            ours = f"at most {error.max:.2f} %" if error.count else "no samples"
            evidence.expect(f"{what} ({run.label})", "", error.max, ERROR, ours)


# %%
if __name__ == "__main__":
    errors_after_failure.main()
