# %% [markdown]
"""# Bundler, section 7.3
Other schedulers of the sendbox than SFQ: FQ-CoDel keeps the delay of a backlogged flow short, and
strict priority prefers a class of requests.

The paper has a 99th percentile of 10.5 for the high class, and of 41.4 with SFQ. A class has one
queue: its small responses wait behind its large ones, therefore SFQ has the shorter tail if a class
has large responses.
"""

# %%
from typing import Sequence

from netarium_papers import Run, Stage, figure, quantile
from netarium_papers.bundler.cases import BUNDLER, STATUS_QUO, Case, run_cases, times
from netarium_papers.bundler.slowdown import DEFINITION, Requests

BASE_MS = 50
CODEL = '{ kind = "codel", target = "100 ms", interval = "5 ms", limit = "2000 packets" }'


def delays(runs: Sequence[Run]) -> list[float]:
    """The smoothed RTT of the backlogged flow minus the base, in ms, after 5 s."""
    samples = [sample for run in runs for sample in run.flow_samples("bulk", "rtt_ns")]
    return [rtt / 1e6 - BASE_MS for at, rtt in samples if at > 5]


def fq_codel(stage: Stage) -> None:
    duration = stage.size("60 s", "20 s")
    settings = {"flow.bulk.streams": 1, "lab.duration": duration, "link.bottleneck.queue": CODEL}
    own = Case("fq-codel", "Bundler, FQ-CoDel", {"bundle.site.scheduler": "fq-codel"})
    cases = [case.set(settings) for case in (STATUS_QUO, own)]
    runs = run_cases(stage, "bundler/backlogged.toml", cases, 3)
    table = stage.table(
        "Delay of a backlogged flow, its smoothed round trip less 50 ms, in ms: the paper's / ours",
        ["", "median", "99 %"],
    )
    found = [[quantile(delays(of), share) for share in (0.5, 0.99)] for of in runs]
    for case, paper, values in zip(cases, ((122.0, 151.5), (4.25, 15.3)), found):
        table.row(case.label, *(f"{of:.1f} / {value:.1f}" for of, value in zip(paper, values)))
    texts = (
        ("median", "97 % less (here: at least 80 %)", 0.2),
        ("99th percentile", "90 % less (here: at least 70 %)", 0.3),
    )
    for (quantile_name, paper_text, limit), quo, ours in zip(texts, *found):
        what = f"{quantile_name} of a backlogged flow's delay, FQ-CoDel against status quo"
        text = f"{ours:.1f} ms against {quo:.1f} ms, {(1 - ours / quo) * 100:.0f} % less"
        stage.claim(what, paper_text, text, ours / quo <= limit)


def priority(stage: Stage) -> None:
    count = stage.size(50_000, 10_000)
    settings = {"flow.high.count": count, "flow.low.count": count}
    fair = Case("sfq", "Bundler, SFQ", {"bundle.site.scheduler": "sfq"})
    cases = [
        case.set(settings, "classes", label)
        for case, label in ((STATUS_QUO, ""), (BUNDLER, "Bundler, priority"), (fair, ""))
    ]
    runs = run_cases(stage, "bundler/classes.toml", cases, stage.size(5, 3))
    heads = ["", "high, median", "99 %", "low, median", "99 %"]
    table = stage.table("Slowdown of two equal classes, the paper's / ours", heads)
    medians = []
    for of, case, paper in zip(runs, cases, (("3.07", "202"), ("1.07", "10.5"), ("–", "41.4"))):
        high, low = (Requests.read(of, flow) for flow in ("high", "low"))
        medians.append(high.median())
        cells = (f"{paper[0]} / {high.median():.2f}", f"{paper[1]} / {high.quantile(0.99):.1f}")
        table.row(case.label, *cells, f"{low.median():.2f}", f"{low.quantile(0.99):.1f}")
    quo, ours, sfq = medians
    what, ratio = "median slowdown of the high class, priority over status quo", ours / quo
    text = f"{times(ratio)}: {ours:.2f} over {quo:.2f}"
    stage.expect(what, "0.35 ×", ratio, "at most 0.75 ×", text)
    what, paper_text = "median slowdown of the high class, priority over SFQ", "about the same"
    stage.expect(what, f"{paper_text}, 1.07 and 1.26", ours / sfq, "at most 1.1 ×")


@figure(
    "policies",
    "FQ-CoDel for backlogged flows, strict priority for a class of requests",
    "2 min",
    "virtual",
)
def policies(stage: Stage) -> None:
    fq_codel(stage)
    priority(stage)
    stage.note(DEFINITION)


# %%
if __name__ == "__main__":
    policies.main()
