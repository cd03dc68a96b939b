# %% [markdown]
"""# Bundler, beyond the paper: rates and RTTs
One configuration on paths of 12 Mbit/s to 1 Gbit/s and 10 to 300 ms.

Goodput is that of ten Cubic flows over the whole run with its start-up: 30 s, or 200 RTTs if they
are longer. 90 % are used when the link has sent that much in 100 ms, or in one RTT if it is longer.
"""

# %%
import itertools
import math

from netarium_papers import Run, Stage, figure
from netarium_papers.bundler.cases import average, run_pairs
from netarium_papers.bundler.timeline import goodput_mbits, mean, queue_ms

RATES, ROUND_TRIPS = (12, 48, 200, 1000), (10, 50, 100, 300)
GOODPUT, USED = 0.93, 0.9


def used_after(run: Run, mbits: int, rtt: int) -> float:
    """Time in s until 90 % of the bottleneck are used in a step."""
    # At least one RTT: acknowledgements of slow start arrive in bursts.
    step = max(rtt / 1e3, 0.1)
    sent = run.link_rate("bottleneck", "up", step)
    ends = (middle + step / 2 for middle, rate in sent if rate >= USED * mbits * 1e6)
    return next(ends, math.inf)


@figure(
    "rates",
    "beyond the paper: 12 Mbit/s to 1 Gbit/s, 10 to 300 ms, one configuration",
    "15 min",
    "virtual",
)
def rates(stage: Stage) -> None:
    grid = list(itertools.product(*stage.size((RATES, ROUND_TRIPS), (RATES[:2], ROUND_TRIPS[:3]))))
    durations = {rtt: 20 if stage.short else max(rtt // 5, 30) for rtt in ROUND_TRIPS}
    settings = {
        f"{mbits}-{rtt}": {
            "link.bottleneck.rate": f"{mbits} Mbit/s",
            "link.bottleneck.delay": f"{rtt / 2:g} ms",
            "link.bottleneck.queue": "droptail",
            "lab.duration": f"{durations[rtt]} s",
            "lab.interval": "20 ms" if rtt > 20 else "5 ms",
        }
        for mbits, rtt in grid
    }
    table = stage.table(
        "Goodput in Mbit/s over the whole run; s until 90 % of the link are used, slowest seed "
        "(status quo / Bundler); mean ms of queue (the same)",
        ["rate, round trip", "status quo", "Bundler", "ratio", "90 % after", "limit", "queue"],
    )
    ratios = {}
    pairs = run_pairs(stage, "bundler/backlogged.toml", settings, 3)
    for (mbits, rtt), pair in zip(grid, pairs):
        end, limit = durations[rtt], f"{max(20 * rtt / 1e3, 3):.1f}"
        goodputs, used, queues = [], [], []
        for of in pair:
            goodputs.append(average(of, lambda run: goodput_mbits(run, "bulk", 0, end)))
            used.append(max(used_after(run, mbits, rtt) for run in of))
            queues.append(average(of, lambda run: mean(queue_ms(run, mbits), end / 3, end)))
        ratio = ratios[mbits, rtt] = goodputs[1] / goodputs[0]
        which = f"{mbits} Mbit/s, {rtt} ms"
        times_s, waits = (" / ".join(f"{of:.1f}" for of in pair) for pair in (used, queues))
        cells = (f"{goodput:.2f}" for goodput in goodputs)
        table.row(which, *cells, f"{ratio:.3f}", times_s, limit, waits)
        stage.expect(f"goodput over status quo, {which}", "", ratio, f"at least {GOODPUT} ×")
        stage.expect(f"time until 90 % are used, {which}", "", used[1], f"at most {limit} s")
    title, x = "Goodput over status quo", "round trip in ms"
    plot = stage.plot(title, x, "ratio", log="x", ylim=(0.8, None))
    for mbits in dict(grid):
        own = [(rtt, ratio) for (of, rtt), ratio in ratios.items() if of == mbits]
        plot.line(f"{mbits} Mbit/s", own)
    ends = [(ROUND_TRIPS[0], GOODPUT), (ROUND_TRIPS[-1], GOODPUT)]
    plot.line("asked for", ends, style="reference")


# %%
if __name__ == "__main__":
    rates.main()
