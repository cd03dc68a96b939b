# %% [markdown]
"""# SLBN, figures 9 and 10
Experiment 2b: half of 100,000 sessions on the large network are replaced within one second.
Meanwhile errors stay nearly constant, and links are not overloaded.

Data is modelled as a fluid here: its queues are integrated exactly, and how single packets delay
each other is not modelled. The length of a queue is the time that its link needs to send it; 3 % of
the link capacity in the paper is read as 30 ms.

A prototype with a random network of its own and control packets alone, SLBN: mean error at sources
−1.5 to −3.7 % during the changes, −8 to −12 % at bottlenecks.
"""

# %%
from netarium_papers import Evidence, Stage, figure
from netarium_papers.slbn import accuracy
from netarium_papers.slbn.protocol_run import ProtocolRun, protocol_runs

# The second in which sessions are replaced; first, errors grow from none.
CHURN_S, ONSET_S = (9.0, 10.0), 0.2
TABLE_S = (1.0, 2.0, 9.0, 9.2, 9.4, 9.6, 9.8, 10.0, 10.6)
# An error that is nearly constant varies by at most this number of percentage points.
VARIATION = "within 5 points"
# The paper's limit of queues: 3 % of the bytes that a link sends in 1 s.
MAX_QUEUE_MS = 30
SHORT = {
    "sessions.first.count": 1000,
    "sessions.first.leave_count": 500,
    "sessions.second.count": 500,
}


@figure(
    "2b",
    "accuracy while half of 100,000 sessions are replaced (figures 9 and 10)",
    "10 min",
    "virtual",
)
def accuracy_during_churn(stage: Stage) -> None:
    runs = protocol_runs(stage, "2b", ("slbn", "bfyz"), SHORT, one_at_a_time=True)
    slbn, bfyz = every = list(runs.values())
    for number, place in ((9, "source"), (10, "bottleneck")):
        title = f"Figure {number}: errors at {place}s"
        accuracy.plot_errors(stage, title, every, place, CHURN_S[0], slbn.end)
    y = "ms to send the longest queue"
    accuracy.plot_samples(stage, "Longest queue", y, every, "queue_ms", ylim=(0, None))
    accuracy.table_errors(stage, every, TABLE_S)
    accuracy.table_cost(stage, every)
    claims(stage, slbn, bfyz, stage.short)


def claims(evidence: Evidence, slbn: ProtocolRun, bfyz: ProtocolRun, is_short: bool) -> None:
    start, end = CHURN_S[0], slbn.end
    error = slbn.moments("source_mean", start + ONSET_S, CHURN_S[1])
    what = "mean error at sources while sessions are replaced (SLBN)"
    ours = f"{error.min:+.2f} to {error.max:+.2f} %, {error.mean:+.2f} % in the mean"
    evidence.expect(what, "nearly constant", error.max - error.min, VARIATION, ours)
    accuracy.claim_not_over(evidence, slbn, start, end, "no significant overshoot")
    # Few sessions in a small network do not show the errors of BFYZ in a large one.
    if not is_short:
        accuracy.claim_not_over(evidence, bfyz, start, end, "higher than SLBN's, always below 5 %")
        own, other = (run.moments("bottleneck_mean", start, end).max for run in (slbn, bfyz))
        evidence.claim(
            "largest mean error at bottlenecks, SLBN beside BFYZ",
            "BFYZ's is higher",
            f"{own:+.2f} beside {other:+.2f} %",
            other >= own,
        )
    longest = slbn.moments("queue_ms", start, end).max
    evidence.claim(
        "longest queue in the second phase (SLBN)",
        f"below 3 % of the link capacity (here: {MAX_QUEUE_MS} ms of it)",
        f"{longest:.1f} ms, {longest / 10:.1f} %",
        longest < MAX_QUEUE_MS,
    )


# %%
if __name__ == "__main__":
    accuracy_during_churn.main()
