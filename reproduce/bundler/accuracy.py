# %% [markdown]
"""# Bundler, figure 5
The gateways estimate the RTT and the receive rate of a bundle. The estimates are compared with the
queue and the rate of the bottleneck at that time.

The true RTT is the propagation delay plus the time in which the bottleneck sends the queue at the
arrival of the acknowledged packet. The true rate is what the bottleneck sent in the RTT before. The
estimates and the queue are sampled every 5 ms.
"""

# %%
import itertools
from typing import Any, Iterable

import numpy

from netarium_papers import Run, Stage, cdf, figure, quantile
from netarium_papers.bundler.cases import BUNDLER, run_cases
from netarium_papers.bundler.timeline import bundle, queue_ms

GRID = list(itertools.product((24, 48, 96), (20, 50, 100)))  # Mbit/s, ms
# 80 % of the paper's estimates are within these errors.
RTT_MS, RATE_MBITS = 1.2, 4
SETTLED_S = 5  # The first sample of a run.
MAX_POINTS = 400


def errors(run: Run, mbits: float, base_ms: float) -> tuple[Any, Any]:
    """Estimate minus true value of each sample: RTT in ms, rate in Mbit/s."""
    waits = numpy.array(queue_ms(run, mbits)).T
    middles, sent = numpy.array(run.link_rate("bottleneck", "up", 0.005)).T
    at, rtt_ms = numpy.array(bundle(run, "rtt_ns", 1e6)).T
    received = numpy.array(bundle(run, "receive_rate_bps", 1e6)).T[1]
    # All propagation is at the bottleneck: a packet queues there when it is sent.
    then = at - rtt_ms / 1e3
    is_known = (at >= SETTLED_S) & (then > waits[0, 0]) & (then <= waits[0, -1])
    of_rtt = rtt_ms - base_ms - numpy.interp(then, *waits)
    # The RTT before the time when the acknowledgement left the receivebox.
    until = at - base_ms / 1e3
    first = numpy.searchsorted(middles, until - rtt_ms / 1e3, "right")
    last = numpy.searchsorted(middles, until, "right")
    sums = numpy.concatenate(([0.0], numpy.cumsum(sent / 1e6)))
    with numpy.errstate(invalid="ignore"):
        of_rate = received - (sums[last] - sums[first]) / (last - first)
    return of_rtt[is_known], of_rate[is_known & numpy.isfinite(of_rate)]


@figure("accuracy", "figure 5: estimates of round trip and rate on 90 traces", "3 min", "virtual")
def accuracy(stage: Stage) -> None:
    common = {"lab.duration": stage.size("30 s", "10 s"), "lab.interval": "5 ms"}
    cases = []
    for mbits, rtt in GRID:
        delay = f"{rtt / 2:g} ms"
        path = {"link.bottleneck.rate": f"{mbits} Mbit/s", "link.bottleneck.delay": delay}
        cases.append(BUNDLER.set({**path, **common}, f"{mbits}-{rtt}"))
    seeds = stage.size(10, 3)
    runs = run_cases(stage, "bundler/requests.toml", cases, seeds)
    heads = ["rate, round trip", "round trip: 10 %", "50 %", "90 %", "rate: 10 %", "50 %", "90 %"]
    table = stage.table("Estimate less truth, in ms and Mbit/s", heads)
    found = []
    for (mbits, rtt), own in zip(GRID, runs):
        found.append(pooled(errors(run, mbits, rtt) for run in own))
        table.row(f"{mbits} Mbit/s, {rtt} ms", *quantiles(found[-1]))
    table.row("all", *quantiles(pooled(found)))
    table.row("paper, all", "−1.20", "", "0.65", "−2.00", "", "3.60")
    limits = (("round trip", RTT_MS, "ms"), ("rate", RATE_MBITS, "Mbit/s"))
    for values, (name, limit, unit) in zip(pooled(found), limits):
        within = quantile(numpy.abs(values), 0.8)
        what = f"80 % of the estimates of {name}, {len(cases) * seeds} traces"
        ours = f"within {within:.2f} {unit}, of {len(values)} estimates"
        stage.claim(what, f"within {limit} {unit}", ours, within <= limit)
        title, x, y = f"Error of the {name}", f"estimate less truth in {unit}", "% of estimates"
        plot = stage.plot(title, x, y, xlim=(-10, 10), ylim=(0, 100))
        points = cdf(values)
        plot.line("here", points[:: max(len(points) // MAX_POINTS, 1)])


def pooled(found: Iterable[Iterable[Any]]) -> list[Any]:
    return [numpy.concatenate(parts) for parts in zip(*found)]


def quantiles(found: Iterable[Any]) -> list[str]:
    return [f"{quantile(values, share):.2f}" for values in found for share in (0.1, 0.5, 0.9)]


# %%
if __name__ == "__main__":
    accuracy.main()
