# %% [markdown]
"""# SLBN, figures 7 and 8
Experiment 2a: 180,000 sessions join a network of 11,000 routers within one second. With SLBN they
soon have their max-min fair rates, and links are not overloaded meanwhile.

A prototype with a random network of its own, SLBN: mean error at sources 31 % at 300 ms, 8 % at 600
ms, 3.5 % at 1 s; bottlenecks never over in the mean; largest queue 5,972 packets; 1,775 M events in
781 s.
"""

# %%
from netarium_papers import Evidence, Stage, figure
from netarium_papers.slbn import accuracy
from netarium_papers.slbn.protocol_run import ProtocolRun, protocol_runs

# The last session joins.
JOINED_S = 1.0
TABLE_S = (0.1, 0.3, 0.6, 0.8, 1.0, 1.2, 1.5)
# The paper's figures omit the largest errors of the first samples too.
SHOWN_PERCENT = (-60, 120)
# Errors below this are the max-min fair rates; unused capacity of bottlenecks at the end.
MAX_ERROR_PERCENT, MAX_UNUSED_PERCENT = 1, 5


@figure(
    "2a",
    "accuracy while 180,000 sessions join 11,000 routers (figures 7 and 8)",
    "15 min",
    "virtual",
)
def accuracy_during_joins(stage: Stage) -> None:
    short = {"sessions.all.count": 3000}
    runs = protocol_runs(stage, "2a", ("slbn", "bfyz"), short, one_at_a_time=True)
    slbn, bfyz = every = list(runs.values())
    for number, place in ((7, "source"), (8, "bottleneck")):
        title = f"Figure {number}: errors at {place}s"
        accuracy.plot_errors(stage, title, every, place, 0.0, slbn.end, ylim=SHOWN_PERCENT)
    y = "packets in the largest queue"
    accuracy.plot_samples(stage, "Largest queue", y, every, "queue", ylim=(0, None))
    accuracy.table_errors(stage, every, TABLE_S)
    accuracy.table_cost(stage, every)
    accuracy.claim_as_accurate(stage, slbn, bfyz)
    # Few sessions in a small network do not show the errors of BFYZ in a large one.
    for run in [slbn] if stage.short else every:
        accuracy.claim_not_over(stage, run, 0.0, slbn.end, "no notable overshoot")
        claim_reached(stage, run)
    if not stage.short:
        own, other = (run.moments("bottleneck_mean", 0.0, JOINED_S).mean for run in every)
        stage.claim(
            "rates at bottlenecks while sessions join, SLBN beside BFYZ",
            "SLBN a bit more conservative (here: lower by no more than 5 points)",
            f"{own:+.2f} beside {other:+.2f} % in the mean over time",
            own <= other and other - own <= 5,
        )


def claim_reached(evidence: Evidence, run: ProtocolRun) -> None:
    large = [at for at, error in run.points("source_abs") if error >= MAX_ERROR_PERCENT]
    after_ms = max(max(large, default=0.0) - JOINED_S, 0.0) * 1e3
    is_reached = run.last("source_abs") < MAX_ERROR_PERCENT
    evidence.claim(
        f"errors at sources below {MAX_ERROR_PERCENT} % in the mean amount ({run.label})",
        "the max-min fair rates are reached quickly (here: before the end, half a second after "
        "the last joins)",
        f"{after_ms:.0f} ms after the last joined" if is_reached else "not before the end",
        is_reached,
    )
    end = run.last("bottleneck_mean")
    evidence.claim(
        f"use of bottlenecks at the end ({run.label})",
        f"almost full (here: at most {MAX_UNUSED_PERCENT} % unused)",
        f"{end:+.2f} % of the capacity",
        end >= -MAX_UNUSED_PERCENT,
    )


# %%
if __name__ == "__main__":
    accuracy_during_joins.main()
