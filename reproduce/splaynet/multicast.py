# %% [markdown]
"""# SplayNet, macro-benchmark multicast
A file is sent to twenty nodes over parallel trees: completion depends mainly on bandwidth.

The bound is the file's wire bytes over the rate of a host's link: a host receives every stripe over
the same link, and sends as many bytes in the other direction.

The models differ in how a host's flows share its link. In hop they share one queue of 100 packets,
0.25 s at 5 Mbit/s: all have the same queueing delay, and a distant receiver gets nearly as much as
a near one. Collapsed weights flows by their RTTs without queues, as in the paper: stripes advance
unevenly, and nodes below a slow one upload too little at first. With even shares (`sharing =
"max-min"`) this does not happen; and with queues of 20 packets, where TCP favours near receivers as
well, hop takes longer too.

Collapsed also gives each flow its share at once and a queue of its own, where TCP in hop loses
packets and backs off. It assumes that every connection can use its share, even while its parent has
nothing to forward. Acknowledgements take no part in the sharing (`acks = true` counts them).
"""

# %%
from typing import Any, NamedTuple

from netarium_papers import Evidence, Job, Run, Stage, cdf, figure, moments, quantile
from netarium_papers.splaynet import PAYLOAD
from netarium_papers.splaynet.macro_benchmarks import compare_models, results


class Variant(NamedTuple):
    """A model with the queues and the sharing of the lab, or with a setting instead."""

    name: str
    model: str
    text: str = ""
    settings: tuple[str, ...] = ()


VARIANTS = (
    Variant("multicast", "hop"),
    Variant(
        "short-queues",
        "hop",
        ", hosts' queues of 20 packets",
        ("generate.1.access.queue", "20 packets"),
    ),
    Variant("multicast", "collapsed"),
    Variant("max-min", "collapsed", ", even shares", ("lab.sharing", "max-min")),
)


@figure("multicast", "completion of a file's multicast over parallel trees", "1 min", "wall")
def completion(stage: Stage) -> None:
    size = stage.size('"3000000"', '"1000000"')
    jobs, variants = [], []
    for clock, model in stage.settings():
        for variant in VARIANTS:
            if variant.model == model:
                job = Job("splaynet/multicast.toml", variant.name, clock, model)
                job = job.set("program.node.env.SIZE", size).set("program.source.env.SIZE", size)
                jobs.append(job.set(*variant.settings) if variant.settings else job)
                variants.append(variant)
    limits = {"xlim": (0, None), "ylim": (0, 100)}
    plot = stage.plot("Completion of the file", "completion in s", "nodes in %", **limits)
    heads = "run,first{:.3f},median{:.3f},last{:.3f},capacity's bound{:.3f},busiest program"
    table = stage.table("Completion in s", f"{heads}{{:.0f}} % of a core".split(","))
    times: dict[tuple[str, bool], list[float]] = {}
    for variant, run in zip(variants, stage.run(jobs)):
        label = run.label + variant.text
        nodes = results(run, "node", "node", "done", "bytes", "cpu", "right")
        source = results(run, "source", "clock", "trees", "depth")[0]
        took = [node["done"] - source["clock"] for node in nodes]
        bounds = [bound(run, node) for node in nodes]
        claims(stage, label, run, nodes, [a / b for a, b in zip(took, bounds)])
        busy = max(node["cpu"] / s for node, s in zip(nodes, took))
        seconds = (min(took), quantile(took, 0.5), max(took), min(bounds))
        table.row(label, *seconds, busy * 100)
        if not plot.lines:
            ends = [(min(bounds), 0.0), (min(bounds), 100.0)]
            plot.line("capacity's bound", ends, style="reference")
            plot.note = f"{source['trees']} trees of at most {source['depth']} edges from the "
            plot.note += "source to a leaf"
        plot.line(label, cdf(took), style="steps")
        times[variant.model, bool(variant.settings)] = took
    if len(times) == len(VARIANTS):
        compare(stage, times)


def bound(run: Run, node: dict[str, Any]) -> float:
    """The minimum time in s in which the file fits through the link of a node."""
    links = [link for link in run.record["topology"]["links"] if node["node"] in link["ends"]]
    rates = [rate for rate in links[0]["rate_bit_per_s"] if rate is not None]
    return float(node["bytes"] / PAYLOAD * 8 / min(rates))


def claims(
    evidence: Evidence, label: str, run: Run, nodes: list[dict[str, Any]], ratios: list[float]
) -> None:
    receivers = sum(name.startswith("node.") for name in run.programs)
    right = sum(node["right"] for node in nodes)
    evidence.claim(
        f"nodes with the whole file, by its hash ({label})",
        "all",
        f"{right} of {receivers}",
        right == receivers,
    )
    of = moments(ratios)
    evidence.claim(
        f"completion over the capacity's bound ({label})",
        "no less than 1",
        f"{of.min:.3f} to {of.max:.3f}",
        of.min >= 1,
    )


def compare(evidence: Evidence, times: dict[tuple[str, bool], list[float]]) -> None:
    """Claims about collapsed runs and packets in the long queues of the lab."""
    even = {"hop": times["hop", False], "collapsed": times["collapsed", True]}
    for what, share in (("median", 0.5), ("last", 1.0)):
        collapsed, long, short = (
            quantile(times[of], share)
            for of in (("collapsed", False), ("hop", False), ("hop", True))
        )
        apart = (collapsed / long - 1) * 100
        evidence.claim(
            f"{what} completion, collapsed within 10 % of hop",
            "same curves as the reference emulators",
            f"{collapsed:.2f} s beside {long:.2f} s ({apart:+.0f} %); {short:.2f} s with short "
            "queues",
            abs(apart) <= 10,
        )
        compare_models(evidence, f"{what} completion in s with even shares", share, even, 0.2)


# %%
if __name__ == "__main__":
    completion.main()
