# %% [markdown]
"""# SplayNet, macro-benchmark Chord
Lookups in a Chord ring on an Internet-like network: their delay is mainly that of the links.

Both models delay a packet by the same sum of delays. Hop adds a transmission time for every link
(0.3 ms for a request of 200 B at a host's 10 Mbit/s, and less inside), collapsed one transmission
time at the share of the flow. The rest is the time of the Python programs: some tenths of a
millisecond for each node of the path.

Rings form by real joins, so fingers, and with them the path of a lookup, may differ in rare cases
between runs; keys and origins are the same.
"""

# %%
import math
from typing import Any

from netarium_papers import Evidence, Job, Run, Stage, cdf, figure, moments, quantile
from netarium_papers.splaynet.macro_benchmarks import compare_models, results
from netarium_papers.splaynet.routes import Network

Lookups = list[dict[str, Any]]


def path_ms(network: Network, nodes: list[str]) -> float:
    """Delays of the links along the nodes of a lookup and from the last to the first."""
    steps = [*zip(nodes, nodes[1:]), (nodes[-1], nodes[0])]
    return sum(network.paths(*step)[0].delay_ns / 1e6 for step in steps)


@figure("chord", "delay of lookups in a Chord ring", "1 min", "wall")
def lookups(stage: Stage) -> None:
    jobs = [Job("splaynet/chord.toml", "chord", *of) for of in stage.settings()]
    lookups_each = stage.size('"30"', '"8"')
    runs = stage.run([job.set("program.drive.env.LOOKUPS", lookups_each) for job in jobs])
    limits = {"xlim": (0, None), "ylim": (0, 100)}
    plot = stage.plot("Delay of lookups", "delay in ms", "lookups in %", **limits)
    heads = ["run", "lookups", "hops{:.2f}", "median{:.1f}", "p90{:.1f}", "p99{:.1f}"]
    heads.append("beyond the links, median{:.2f}")
    table = stage.table("Delay of lookups in ms", heads)
    times = {}
    for run in runs:
        found = results(run, "node", "path", "ms", "right", "tries")
        network = Network(run.record["topology"])
        for one in found:
            one["links_ms"] = path_ms(network, one["path"])
            one["beyond_ms"] = one["ms"] - one["links_ms"]
        took, least, beyond = (values(found, key) for key in ("ms", "links_ms", "beyond_ms"))
        quantiles = [quantile(took, share) for share in (0.5, 0.9, 0.99)]
        table.row(run.label, len(found), mean_hops(found), *quantiles, quantile(beyond, 0.5))
        claims(stage, run, found)
        if not plot.lines:
            plot.line("the links' delays alone", cdf(least), style="reference")
        plot.line(run.label, cdf(took), style="steps")
        times[str(run.model)] = took
    compare_models(stage, "median delay of a lookup in ms", 0.5, times, 0.05)
    compare_models(stage, "90th percentile of it in ms", 0.9, times, 0.05)


def values(found: Lookups, key: str) -> list[float]:
    return [one[key] for one in found]


def mean_hops(found: Lookups) -> float:
    return moments(len(one["path"]) - 1 for one in found).mean


def claims(evidence: Evidence, run: Run, found: Lookups) -> None:
    right = sum(one["right"] for one in found)
    repeated = sum(one["tries"] > 1 for one in found)
    evidence.claim(
        f"answers that are right ({run.label})",
        "all",
        f"{right} of {len(found)}, {repeated} after a repeated request",
        right == len(found),
    )
    origins = len({one["path"][0] for one in found})
    theory, hops = math.log2(origins) / 2, mean_hops(found)
    evidence.claim(
        f"hops of a lookup among {origins} nodes, on average ({run.label})",
        f"½ log₂ N = {theory:.2f} (Stoica et al.)",
        f"{hops:.2f}",
        abs(hops / theory - 1) <= 0.2,
    )
    beyond, least = values(found, "beyond_ms"), values(found, "links_ms")
    # Origins answer some lookups themselves.
    shares = [over / links if links else math.inf for over, links in zip(beyond, least)]
    ms, share = quantile(beyond, 0.5), quantile(shares, 0.5)
    evidence.claim(
        f"delay beyond the path's links, median ({run.label})",
        "under 5 ms and 10 % (figure 3.6b)",
        f"{ms:.2f} ms, {share * 100:.2f} %",
        ms < 5 and share < 0.1,
    )
    evidence.claim(
        f"no lookup faster than its path ({run.label})",
        "none",
        f"{min(beyond):.2f} ms beyond it at least",
        min(beyond) >= 0,
    )


# %%
if __name__ == "__main__":
    lookups.main()
