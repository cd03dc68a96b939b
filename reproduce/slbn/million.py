# %% [markdown]
"""# SLBN, beyond the paper: a million sessions
A million sessions on the large network, and what they cost.
"""

# %%
from netarium_papers import Evidence, Stage, figure
from netarium_papers.slbn import accuracy
from netarium_papers.slbn.protocol_run import ProtocolRun, protocol_runs

SESSIONS, SHORT_SESSIONS = 1_000_000, 4_000
TABLE_S = (0.4, 1.0, 1.6, 2.0, 2.4, 3.0, 4.0)
ERROR = "at most 2 %"


@figure(
    "million",
    "beyond the paper: a million sessions on the large network, and what they cost",
    "15 min",
    "virtual",
)
def million_sessions(stage: Stage) -> None:
    short = {"sessions.all.count": SHORT_SESSIONS}
    (run,) = protocol_runs(stage, "million", ["slbn"], short).values()
    for place in ("source", "bottleneck"):
        title, ylim = f"Errors at {place}s", (-60, 150)
        accuracy.plot_errors(stage, title, [run], place, 0.0, run.end, ylim=ylim)
    claims(stage, run, stage.size(SESSIONS, SHORT_SESSIONS))
    accuracy.table_errors(stage, [run], TABLE_S)
    accuracy.table_cost(stage, [run])


def claims(evidence: Evidence, run: ProtocolRun, sessions: int) -> None:
    joined, numbers = run.summary["joined"], run.summary["link_numbers_max"]
    paper = f"not in the paper (expected: {sessions})"
    evidence.claim("sessions that joined", paper, str(joined), joined == sessions)
    error = run.last("source_abs")
    what = "mean amount of the errors at sources at the end"
    evidence.expect(what, "", error, ERROR, f"{error:.2f} %")
    what, paper = "numbers that a link keeps", "three, whatever the number of sessions"
    evidence.claim(what, paper, f"at most {numbers}", numbers == 3)


# %%
if __name__ == "__main__":
    million_sessions.main()
