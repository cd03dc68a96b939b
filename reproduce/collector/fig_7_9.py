# %% [markdown]
"""# Collector, figure 7.9
Loss of regular traffic near the router's limit, while five full tables are withdrawn and announced
again. In the paper, cloning raises the loss to a very small extent.

On the wall clock clones leave through a port of their own and do not use the modelled capacity:
both runs should be alike, except for TCP's progress between losses. The router is 200 times slower
than the paper's, and the same five sessions displace a larger share: the comparable value is the
number of lost packets for each packet of BGP.

Speakers withdraw and announce all prefixes over sessions that stay up, as the paper's Quagga
processes do when their sessions with the ISP end and return.
"""

# %%
from typing import NamedTuple

from netarium_papers import Evidence, Job, Run, Stage, figure
from netarium_papers.collector import CLOCKS, CLONED, LIMIT, PAPER_LIMIT, SHARE_OF_BGP, UPDATES
from netarium_papers.collector import Traffic, mrt
from netarium_papers.collector.model import model, simulated
from netarium_papers.collector.testbed import PEERS, SHORT_PREFIXES, Testbed, installed

LABELS = {UPDATES: "reset-no-mirror", CLONED: "reset-mirror"}
# Regular traffic in % of the lines' rate: just below the router's capacity, and 0.003 % above it.
SHARE, MODEL_SHARE = 61.9, LIMIT * 1.00003
STEP_S = 2.0
PAPER_MAX = 0.04  # Upper limit of the paper's loss, in %
SCRIPT = "4 announce 65 withdraw 80 announce 140 end"
SHORT_SCRIPT = "4 announce 6 withdraw 7 announce 9 end"
# Maximum of regular packets that cloning costs for each packet of BGP on the wall clock, where
# clones do not use the modelled capacity: TCP's progress between losses varies.
NO_DIFFERENCE = 0.25


class Losses(NamedTuple):
    """Loss of a run in steps: their middles in s, and loss in %."""

    steps: list[tuple[float, float]]
    traffic: Traffic

    @property
    def max(self) -> float:
        return max((loss for _, loss in self.steps), default=0.0)

    @property
    def displaced(self) -> float:
        """Regular packets lost for each packet of BGP."""
        return self.traffic.lost / max(self.traffic.bgp, 1)


def steps(run: Run) -> list[tuple[float, float]]:
    """Loss in % in the steps in which regular traffic flows all the time."""
    sent_rates = (run.flow_sent_rate(flow, STEP_S) for flow in ("east", "west"))
    sent = [a + b for (_, a), (_, b) in zip(*sent_rates)]
    rates = zip(run.flow_rate("east", STEP_S), run.flow_rate("west", STEP_S), sent)
    full = 0.99 * max(sent, default=0.0)
    return [(at, max(1 - (a + b) / of, 0.0) * 100) for (at, a), (_, b), of in rates if of > full]


@figure(
    "7.9", "frame loss while five full tables are withdrawn and announced", "7 min", "wall virtual"
)
def loss_during_bursts(stage: Stage) -> None:
    heads = "clock, what, sent, lost, loss, most in a step, packets of BGP, clones, lost for each"
    table = stage.table("Regular traffic, both directions together", heads.split(", "))
    for clock in stage.clocks():
        found = {"wall": on_wall_clock, "virtual": on_virtual_clock}[clock](stage)
        title = f"Frame loss during bursts ({CLOCKS[clock]})"
        plot = stage.plot(title, "time in s", "frame loss in %", ylim=(0, None))
        for label, of in zip(LABELS.values(), found):
            sent, lost, bgp, cloned = of.traffic
            shares = [f"{share:.4f} %" for share in (of.traffic.loss, of.max)]
            counts = (bgp, cloned or 0, f"{of.displaced:.2f}")
            table.row(CLOCKS[clock], label, sent, lost, *shares, *counts)
            plot.line(label, of.steps)
        claims = wall_claims if clock == "wall" else model_claims
        claims(found[0], found[1], stage)
    stage.note(
        "Near the limit every packet that the router handles beside regular traffic displaces one. "
        f"Five tables in two minutes are 310 packets/s, {SHARE_OF_BGP:.3f} % of the paper's "
        f"{PAPER_LIMIT}; with clones it is twice that. With the loss between bursts, this is the "
        "height of the paper's spikes: a Cisco 7201 seems to spend the work of about one packet on "
        "a clone."
    )


def on_virtual_clock(stage: Stage) -> list[Losses]:
    duration, burst = stage.size(("80 s", "10 s"), ("8 s", "2 s"))

    def job(mode: str) -> Job:
        found = model(LABELS[mode], mode, MODEL_SHARE).set("lab.duration", duration)
        for flow in ("bgp", "clones") if mode == CLONED else ("bgp",):
            pattern = f'{{ on = "{burst}", off = "{burst}" }}'
            found = found.set(f"flow.{flow}.start", burst).set(f"flow.{flow}.pattern", pattern)
        return found

    runs = zip(stage.run([job(mode) for mode in LABELS]), LABELS)
    return [Losses(steps(run), simulated(run, mode)) for run, mode in runs]


def on_wall_clock(stage: Stage) -> list[Losses]:
    script, prefixes = stage.size((SCRIPT, 0), (SHORT_SCRIPT, SHORT_PREFIXES))
    regular, duration = (SHARE, 6, stage.size(140, 8)), stage.size("240 s", "60 s")
    daemon, found = installed()[0], []
    for mode, name in LABELS.items():
        is_cloned = mode == CLONED
        testbed = Testbed(stage, name, daemon, script, regular, duration, prefixes, is_cloned)
        run = testbed.run()
        found.append(Losses(steps(run), testbed.traffic(run)))
    compared = mrt.compare(testbed.out / "router.mrt", testbed.out / "archive")
    drops = testbed.collected()["kernel_drops"]
    stage.claim(
        "archive beside the router's own dump, under this load",
        "correct in all experiments, also when regular traffic was dropped",
        f"{compared.same} of {compared.peers} peers the same bytes, {compared.updates} UPDATEs; "
        f"{drops} segments dropped",
        compared.peers == compared.same == len(PEERS) and drops == 0,
    )
    return found


def wall_claims(without: Losses, cloned: Losses, evidence: Evidence) -> None:
    evidence.claim(
        "regular packets lost for each packet of BGP, without cloning and with it (wall)",
        "loss is likely due to the BGP traffic itself: at most one",
        f"{without.displaced:.2f} and {cloned.displaced:.2f}",
        without.displaced <= 1.1 and cloned.displaced <= 1.1,
    )
    added = cloned.displaced - without.displaced
    evidence.claim(
        "what cloning adds to that (wall)",
        "a very small extent",
        f"{added:+.3f}; {NO_DIFFERENCE} allowed",
        added <= NO_DIFFERENCE,
    )


def model_claims(without: Losses, cloned: Losses, evidence: Evidence) -> None:
    between = min(loss for _, loss in without.steps)
    evidence.claim(
        "loss between bursts, without cloning (model)",
        "about 0.005 %",
        f"{between:.4f} %",
        between <= 0.01,
    )
    evidence.claim(
        "most loss in bursts, without cloning and with it (model)",
        f"higher with cloning, never {PAPER_MAX} %",
        f"{without.max:.4f} and {cloned.max:.4f} %",
        without.max < cloned.max < PAPER_MAX,
    )
    added = (cloned.traffic.lost - without.traffic.lost) / max(cloned.traffic.cloned or 0, 1)
    evidence.claim(
        "regular packets that a clone displaces where it costs as much as a packet (model)",
        "not in the paper (expected: one)",
        f"{added:.3f}",
        0.9 <= added <= 1.1,
    )


# %%
if __name__ == "__main__":
    loss_during_bursts.main()
