# %% [markdown]
"""# Collector, figure 7.8
Loss of regular traffic against its rate: without BGP, with five BGP sessions, and with their
segments cloned. The paper's router drops nothing up to 62 % of the lines' packet rate, and cloning
changes nothing.

The paper's router, a Cisco 7201, is not available here. The rate and the queue of the link `engine`
replace its limit, 62 % of the lines' rate as measured in the paper: the baseline is an input. The
results are the effects of BGP and of cloning.

On the wall clock the router is a Linux network namespace that forwards, with a real BGP daemon,
real sessions and real clones. It is 200 times slower than the paper's router and carries full-size
packets. Five sessions of 2 Mbit/s are up to a sixth of its input in their direction (paper: 0.02 %)
and beyond 62 % displace as much regular traffic. Clones leave through a port of their own, as in a
switch, and cost only CPU time of this machine.

The model on the virtual clock has the paper's proportions at a tenth of its rates: minimum packets,
and clones that cost the router as much as any other packet. BGP has priority, as in routers.
"""

# %%
from netarium_papers import Evidence, Stage, figure
from netarium_papers.collector import BASELINE, CLOCKS, CLONED, LIMIT, MODES, SHARE_OF_BGP
from netarium_papers.collector import Traffic
from netarium_papers.collector.model import model, simulated
from netarium_papers.collector.testbed import SHORT_PREFIXES, Testbed, installed

Points = dict[tuple[str, int], Traffic]

# Rates of regular traffic, in % of the lines' rate.
RATES = {
    "wall": (20, 40, 60, 65, 70, 85, 100),
    "virtual": (20, 30, 40, 50, 60, 62, 65, 70, 80, 90, 100),
}
SHORT_RATES = (40, 62, 90)
TOLERANCE = 1.0  # Of the loss against that of the capacity, in percentage points
# Maximum loss by BGP sessions and by cloning, in percentage points. Five sessions are a larger
# share of the scaled router's capacity.
ALLOWED = {"virtual": [SHARE_OF_BGP + 0.005] * 2, "wall": [10.0, 1.0]}


def expected(rate: float) -> float:
    """Loss in % if the router forwards at its capacity."""
    return max(1 - LIMIT / rate, 0.0) * 100


@figure("7.8", "frame loss against packet rate, without and with cloning", "6 min", "wall virtual")
def loss_by_rate(stage: Stage) -> None:
    heads = "clock, what, rate, sent, lost, loss, capacity leaves, packets of BGP, segments cloned"
    table = stage.table("Regular traffic, both directions together", heads.split(", "))
    for clock in stage.clocks():
        points = {"wall": on_wall_clock, "virtual": on_virtual_clock}[clock](stage)
        for (mode, rate), of in points.items():
            losses = [f"{value:.4f} %" for value in (of.loss, expected(rate))]
            cloned = "–" if of.cloned is None else of.cloned
            table.row(CLOCKS[clock], mode, f"{rate} %", *of[:2], *losses, of.bgp, cloned)
        axes = ("packet rate in % of the lines' maximum", "frame loss in %")
        title = f"Frame loss ({CLOCKS[clock]})"
        plot = stage.plot(title, *axes, xlim=(0, 100), ylim=(0, None))
        for mode in MODES:
            plot.line(mode, [(at[1], of.loss) for at, of in points.items() if at[0] == mode])
        capacity = [(rate, expected(rate)) for rate in range(1, 101)]
        plot.line(f"what a capacity of {LIMIT} % leaves", capacity, style="reference")
        claims(clock, points, stage)


def cases(stage: Stage, clock: str) -> list[tuple[str, int]]:
    return [(mode, rate) for mode in MODES for rate in stage.size(RATES[clock], SHORT_RATES)]


def on_virtual_clock(stage: Stage) -> Points:
    found, duration = cases(stage, "virtual"), stage.size("4 s", "1 s")
    jobs = [model(f"{of[0]}-{of[1]}", *of).set("lab.duration", duration) for of in found]
    return {of: simulated(run, of[0]) for of, run in zip(found, stage.run(jobs))}


def on_wall_clock(stage: Stage) -> Points:
    daemon, points = installed()[0], {}
    seconds, prefixes = stage.size((6, 150_000), (3, SHORT_PREFIXES))
    for mode, rate in cases(stage, "wall"):
        # Announcements begin before regular traffic, and last longer.
        script = f"{'' if mode == BASELINE else '3 announce '}{seconds + 5} end"
        regular, name = (rate, 7, seconds), f"{mode}-{rate}"
        is_cloned = mode == CLONED
        testbed = Testbed(stage, name, daemon, script, regular, "60 s", prefixes, is_cloned)
        points[mode, rate] = testbed.traffic(testbed.run())
    return points


def claims(clock: str, points: Points, evidence: Evidence) -> None:
    baseline = {rate: of.loss for (mode, rate), of in points.items() if mode == BASELINE}
    worst = max((loss for rate, loss in baseline.items() if rate < LIMIT - 1), default=0.0)
    evidence.claim(
        f"baseline below {LIMIT} % ({CLOCKS[clock]})",
        "no loss up to 1,845,000 packets/s, 62 %",
        f"at most {worst:.4f} %",
        worst <= (0.1 if clock == "wall" else 0.0),
    )
    off, at = max((abs(loss - expected(rate)), rate) for rate, loss in baseline.items())
    evidence.claim(
        f"baseline beyond it ({CLOCKS[clock]})",
        "rises roughly linearly to 38 % at full rate",
        f"at most {off:.2f} points off 1 − {LIMIT} % / rate, at {at} %",
        off <= TOLERANCE,
    )
    papers = (
        "a peering does not cause more packets to be dropped",
        "activating cloning has no impact",
    )
    for paper, other, mode, allowed in zip(papers, MODES, MODES[1:], ALLOWED[clock]):
        added = [points[mode, rate].loss - points[other, rate].loss for rate in baseline]
        worst = max(added, key=abs)
        evidence.claim(
            f"{mode} beside {other} ({CLOCKS[clock]})",
            paper,
            f"{worst:+.4f} points at most; {allowed:.4f} allowed",
            abs(worst) <= allowed,
        )


# %%
if __name__ == "__main__":
    loss_by_rate.main()
