# %% [markdown]
"""# SLBN, beyond the paper: churn
Errors by the number of sessions that are replaced in one second.
"""

# %%
from typing import NamedTuple

from netarium_papers import Evidence, Stage, figure
from netarium_papers.slbn import NAMES, accuracy
from netarium_papers.slbn.protocol_run import ProtocolRun, job

REPLACED_PERCENT, SHORT_PERCENT = (1, 5, 10, 25, 50, 100), (5, 50)
# Part of the second of churn: errors no longer depend on the state before it.
CHURN_S = (1.2, 2.0)


class Churn(NamedTuple):
    """A run with churn: sessions replaced in 1 s, mean errors in %, and the longest queue in ms.

    `source` is the mean absolute error at sources, `over` the largest mean error at bottlenecks.
    """

    replaced: int
    source: float
    bottleneck: float
    over: float
    queue_ms: float

    @classmethod
    def of(cls, run: ProtocolRun, replaced: int) -> "Churn":
        at_links = run.moments("bottleneck_mean", *CHURN_S)
        source, queue_ms = (run.moments(of, *CHURN_S) for of in ("source_abs", "queue_ms"))
        return cls(replaced, source.mean, at_links.mean, at_links.max, queue_ms.max)


@figure(
    "churn",
    "beyond the paper: errors by how many sessions are replaced in a second",
    "5 min",
    "virtual",
)
def errors_by_churn(stage: Stage) -> None:
    sessions = stage.size(20_000, 2_000)
    replaced = [sessions * of // 100 for of in stage.size(REPLACED_PERCENT, SHORT_PERCENT)]
    found: dict[str, list[Churn]] = {}
    for protocol in ("slbn", "bfyz"):
        jobs = [
            job(stage, "churn", protocol, {"sessions.first.count": sessions}, f"-{count}")
            .set("sessions.first.leave_count", count)
            .set("sessions.second.count", count)
            for count in replaced
        ]
        runs = [ProtocolRun(run, NAMES[protocol]) for run in stage.run(jobs)]
        found[protocol] = [Churn.of(run, count) for run, count in zip(runs, replaced)]
    x = "sessions that come, and that go, in a second"
    for place, y in (("source", "mean amount of the error"), ("bottleneck", "mean error")):
        plot = stage.plot(f"Errors at {place}s by churn", x, f"{y} in %", log="x")
        for name, rows in found.items():
            plot.line(NAMES[name], [(of.replaced, getattr(of, place)) for of in rows])
    heads = ["protocol", "replaced/s", "sources{:.2f}", "bottlenecks{:+.2f}", "at most{:+.2f}"]
    heads.append("longest queue{:.1f} ms")
    table = stage.table("Errors during churn in %", heads)
    for name, rows in found.items():
        for of in rows:
            table.row(NAMES[name], *of)
    claims(stage, found["slbn"], found["bfyz"])
    stage.note(
        f"{sessions} sessions; between 1 and 2 s of the run the same number of sessions leave and "
        f"join, at even intervals. Values are means over the samples from {CHURN_S[0]} to "
        f"{CHURN_S[1]:g} s."
    )


def claims(evidence: Evidence, slbn: list[Churn], bfyz: list[Churn]) -> None:
    excess, replaced, own, other = max(
        (own.source - other.source, own.replaced, own.source, other.source)
        for own, other in zip(slbn, bfyz)
    )
    what = "mean amount of the errors at sources, SLBN beside BFYZ, at every rate of churn"
    ours = f"at most {excess:+.2f} points, {own:.2f} beside {other:.2f} % at {replaced}/s"
    evidence.expect(what, "", excess, accuracy.EXCESS, ours)
    what = "rates at bottlenecks over their capacity, in the mean (SLBN), at every rate of churn"
    paper, over = "the pattern of churn does not matter", max(of.over for of in slbn)
    evidence.expect(what, paper, over, accuracy.OVER, f"at most {over:+.2f} %")


# %%
if __name__ == "__main__":
    errors_by_churn.main()
