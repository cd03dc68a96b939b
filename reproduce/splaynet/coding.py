# %% [markdown]
"""# SplayNet, macro-benchmark network coding
A source sends a file to two sinks over the butterfly network, with random linear network coding and
without coding.

Theory, in rates of a link to each sink (Ahlswede et al.): 2 with coding; 1.5 without, by a packing
of three trees at half the rate each, one of them around the middle link; 1 where both trees need
the middle link. Coding vectors take 1.1 % of the rate.

Every node is a host that relays, so each flow crosses one link, which no other flow uses: both
models have the same delays and rates, and differ only in how a burst is queued.
"""

# %%
import itertools
from typing import Any, NamedTuple

from netarium_papers import Evidence, Job, Points, Run, Stage, figure, moments
from netarium_papers.splaynet.macro_benchmarks import compare_models, results

# Rate of the links times the share at which the source paces, in Mbit/s.
PACED_MBIT = 10.0 * 0.98


class Scheme(NamedTuple):
    """A way to send the file to both sinks.

    `gain` is the rate to a sink in rates of a link, `payload` that of a packet over its bytes on
    the wire: 16 B of coding vector with coding.
    """

    text: str
    gain: float
    payload: float

    @property
    def limit_mbit(self) -> float:
        """Payload to a sink in Mbit/s."""
        return PACED_MBIT * self.gain * self.payload


SCHEMES = {
    "coding": Scheme("network coding", 2, 1400 / 1490),
    "packing": Scheme("three trees", 1.5, 1400 / 1474),
    "trees": Scheme("two trees", 1, 1400 / 1474),
}


class Outcome:
    """The results of the programs of a run."""

    def __init__(self, run: Run) -> None:
        self.run, self.scheme = run, SCHEMES[run.job.name]
        self.name = f"{self.scheme.text} ({run.label})"
        keys = ("seconds", "bytes", "right", "packets", "useless")
        self.sinks: list[dict[str, Any]] = results(run, "node", *keys)
        self.repeated = sum(of["repeated"] for of in results(run, "source", "repeated"))
        loads = results(run, "node", "busy") + results(run, "source", "busy")
        self.busiest = max(load["busy"] for load in loads)
        self.seconds = moments(sink["seconds"] for sink in self.sinks).mean
        rates = (sink["bytes"] * 8 / sink["seconds"] / 1e6 for sink in self.sinks)
        self.mbit = moments(rates).mean

    def cells(self) -> list[Any]:
        packets, useless = (sum(sink[key] for sink in self.sinks) for key in ("packets", "useless"))
        rates = (self.seconds, self.mbit, self.scheme.limit_mbit)
        counts = (f"{useless} of {packets}", self.repeated, self.busiest * 100)
        return [self.scheme.text, self.run.label, *rates, *counts]


@figure("coding", "network coding on the butterfly", "1 min", "wall")
def network_coding(stage: Stage) -> None:
    jobs = []
    for clock, model in stage.settings():
        for name in SCHEMES:
            job = Job("splaynet/butterfly.toml", name, clock, model)
            for program in ("node", "source"):
                job = job.set(f"program.{program}.env.SCHEME", name)
                size = stage.size('"8000000"', '"3000000"')
                job = job.set(f"program.{program}.env.SIZE", size)
            jobs.append(job)
    outcomes = [Outcome(run) for run in stage.run(jobs)]
    heads = "scheme,run,completion in s{:.3f},goodput{:.2f},limit{:.2f},useless,repeated,"
    heads += "busiest{:.0f} % of a core"
    table = stage.table("To each sink, in Mbit/s and packets", heads.split(","))
    limits = {"xlim": (0, None), "ylim": (0, None)}
    plot = stage.plot("What arrives at the sink t1", "time in s", "Mbit/s of wire", **limits)
    for one in outcomes:
        table.row(*one.cells())
        plot.line(one.name, arriving(one.run))
    claims(stage, outcomes)


def arriving(run: Run) -> Points:
    """Mbit/s of wire on both links into t1, from the first packets of the file on."""
    direct, middle = (run.link_rate(link, "up", 0.25) for link in ("a-t1", "d-t1"))
    total = [(at, (a + b) / 1e6) for (at, a), (_, b) in zip(direct, middle)]
    # Hosts send far less before.
    busy = list(itertools.dropwhile(lambda point: point[1] < 1.0, total))
    return [(at - (busy[0][0] - 0.125), rate) for at, rate in busy]


def claims(evidence: Evidence, outcomes: list[Outcome]) -> None:
    right, wanted = sum(sink["right"] for one in outcomes for sink in one.sinks), len(outcomes) * 2
    evidence.claim(
        "sinks with the right file, over all runs", "all", f"{right} of {wanted}", right == wanted
    )
    for one in outcomes:
        limit = one.scheme.limit_mbit
        share = one.mbit / limit
        evidence.claim(
            f"goodput of {one.name}",
            f"{limit:.2f} Mbit/s: {one.scheme.gain} × a link's rate, less pacing and headers",
            f"{one.mbit:.2f} Mbit/s, {share * 100:.1f} % of it",
            0.92 <= share <= 1.03,
        )
    coded = {one.run.label: one for one in outcomes if one.scheme is SCHEMES["coding"]}
    for plain in outcomes:
        if plain.scheme is not SCHEMES["coding"]:
            with_coding = coded[plain.run.label]
            theory = SCHEMES["coding"].gain / plain.scheme.gain
            gain = plain.seconds / with_coding.seconds
            evidence.claim(
                f"coding, faster than {plain.name}",
                f"{theory:.3f} times in theory",
                f"{gain:.3f} times",
                abs(gain / theory - 1) <= 0.1,
            )
    for scheme in SCHEMES.values():
        times = {str(one.run.model): [one.seconds] for one in outcomes if one.scheme is scheme}
        compare_models(evidence, f"completion of {scheme.text} in s", 0.5, times, 0.08)
    busiest = max(one.busiest for one in outcomes)
    evidence.claim(
        "no program limits the network: share of a core that the busiest uses",
        "under 80 %",
        f"{busiest * 100:.0f} %",
        busiest < 0.8,
    )


# %%
if __name__ == "__main__":
    network_coding.main()
