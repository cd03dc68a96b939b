# %% [markdown]
"""# SplayNet, figure 3.5
The worked example of max-min sharing with round-trip times: shares of three flows in three states,
by the formula and by TCP flows on the network.

The paper contradicts itself: with its own default window of 64 KB, B could not exceed 1.748 Mbit/s,
yet the figure gives it 3.5. The figure is made without a window.
"""

# %%
from typing import NamedTuple, Optional

from netarium_papers import Evidence, Job, Points, Run, Stage, figure, moments
from netarium_papers.splaynet import PAYLOAD
from netarium_papers.splaynet.shares import max_min, tcp

# Capacities in Mbit/s of the links 0–1, 1–2, 1–3, 1–4, 4–5.
CAPACITIES = [2.0, 4.0, 4.0, 4.0, 4.0]
# Links and round-trip time in s of each flow.
FLOWS = {"A": ((0, 1), 0.1), "B": ((2, 3, 4), 0.3), "C": ((0, 3, 4), 0.3)}


class State(NamedTuple):
    """The paper's shares in Mbit/s from `start` to `end` s; TCP has settled from `settled` on."""

    shares: dict[str, float]
    start: int
    settled: int
    end: int


STATES = (
    State({"A": 2}, 0, 5, 15),
    State({"A": 2, "B": 4}, 15, 20, 30),
    State({"A": 1.5, "B": 3.5, "C": 0.5}, 30, 40, 60),
)


def shares(flows: dict[str, float], window: Optional[int] = None) -> dict[str, float]:
    """Shares in Mbit/s; the window is in bytes."""
    rates = max_min([mbit * 1e6 for mbit in CAPACITIES], [tcp(*FLOWS[of], window) for of in flows])
    return {name: rate / 1e6 for name, rate in zip(flows, rates)}


@figure(
    "3.5",
    "the worked example: shares of three flows by max-min with round-trip times",
    "1 min",
    "wall virtual",
)
def worked_example(stage: Stage) -> None:
    solved(stage)
    lab = "splaynet/worked-example.toml"
    jobs = [Job(lab, "shares", clock, model) for clock, model in stage.settings()]
    for run in stage.run(jobs, together=True):
        measured(stage, run)
    if "hop" in stage.models():
        stage.note(
            "In the hop model shares are those that CUBIC reaches at drop-tail queues: they are "
            "shown for comparison, without a claim."
        )


def solved(evidence: Evidence) -> None:
    heads = ["flows", "window", "A", "B", "C"]
    table = evidence.table("Shares by the solver in Mbit/s", heads)
    for state in STATES:
        names = " + ".join(state.shares)
        found = shares(state.shares)
        for limit, of in (("off", found), ("64 KiB", shares(state.shares, 65536))):
            cells = (f"{of[name]:.4f}" if name in of else "–" for name in FLOWS)
            table.row(names, limit, *cells)
        evidence.claim(
            f"{names}: shares by the solver",
            ", ".join(f"{share:g}" for share in state.shares.values()) + " Mbit/s",
            ", ".join(f"{share:.9g}" for share in found.values()) + " Mbit/s",
            all(abs(found[name] - share) <= share * 1e-9 for name, share in state.shares.items()),
        )


def wire(run: Run, step_s: float) -> dict[str, Points]:
    """Rates on the wire in Mbit/s: A and B have links of their own, C shares one with B only."""
    a, b, both = (
        [(at, rate / 1e6) for at, rate in run.link_rate(*of, step_s)]
        for of in (("n1-n2", "up"), ("n1-n3", "down"), ("n1-n4", "up"))
    )
    return {"A": a, "B": b, "C": [(at, sum_ - of) for (at, sum_), (_, of) in zip(both, b)]}


def mean(rates: Points, state: State) -> float:
    return moments(rate for at, rate in rates if state.settled <= at < state.end).mean


def measured(evidence: Evidence, run: Run) -> None:
    title = f"Rates of the three flows on the wire ({run.label})"
    plot = evidence.plot(title, "time in s", "rate in Mbit/s", ylim=(0, 5))
    rates = wire(run, 0.5)
    for name in FLOWS:
        plot.line(name, rates[name])
    for name in FLOWS:
        ends = [(at, of.shares.get(name, 0)) for of in STATES for at in (of.start, of.end)]
        plot.line(f"{name}'s share", ends, style="reference")
    for state in STATES if run.model == "collapsed" else ():
        for name, share in state.shares.items():
            rate = mean(rates[name], state)
            evidence.claim(
                f"{name} on the wire, {state.settled} to {state.end} s ({run.label})",
                f"{share} Mbit/s",
                f"{rate:.3f} Mbit/s",
                0.98 <= rate / share <= 1.02,
            )
    title = f"Goodput from 40 to 60 s ({run.label})"
    table = evidence.table(title, ["flow", "goodput", "of the share's payload"])
    for name, share in STATES[-1].shares.items():
        mbit = mean(run.flow_rate(name, 1.0), STATES[-1]) / 1e6
        table.row(name, f"{mbit:.3f} Mbit/s", f"{mbit / (share * PAYLOAD) * 100:.1f} %")


# %%
if __name__ == "__main__":
    worked_example.main()
