# %% [markdown]
"""# Bundler, figure 12
Slowdown of requests by the congestion controller of the bundle, and by that of the hosts.
"""

# %%
import math
from typing import Sequence

from netarium_papers import Stage, figure
from netarium_papers.bundler.cases import BOTH, STATUS_QUO, Case, cell, run_cases
from netarium_papers.bundler.slowdown import DEFINITION, LARGE, SMALL, Requests


def compare(stage: Stage, title: str, cases: Sequence[Case], paper: Sequence[float]) -> list[float]:
    """Adds a table of slowdowns; returns the medians."""
    sized = [case.set({"flow.requests.count": stage.size(100_000, 20_000)}) for case in cases]
    runs = run_cases(stage, "bundler/requests.toml", sized, stage.size(5, 3))
    heads = ["", "median, the paper's / ours", "up to 10 kB, 75 %", "99 %", "above 1 MB"]
    table, medians = stage.table(title, heads), []
    for case, printed, of in zip(cases, paper, runs):
        requests = Requests.read(of)
        medians.append(requests.median())
        values = (requests.quantile(0.75, SMALL), requests.quantile(0.99), requests.median(LARGE))
        table.row(case.label, cell(printed, medians[-1]), *(f"{value:.2f}" for value in values))
    stage.note(DEFINITION)
    return medians


@figure("laws", "figure 12: laws that set the bundle's rate", "4 min", "virtual")
def bundle_controllers(stage: Stage) -> None:
    named = {"copa": "Copa", "basic-delay": "BasicDelay", "bbr": "BBR"}
    cases = [STATUS_QUO] + [
        Case(name, f"Bundler, {label}", {"bundle.site.control": name})
        for name, label in named.items()
    ]
    medians = compare(stage, "Slowdown of requests by law", cases, (1.76, 1.09, 1.32, 1.91))
    quo, *delays, bbr = medians
    for case, median, limit, printed in zip(cases[1:], delays, (0.75, 0.95), ("0.62", "0.75")):
        what = f"median slowdown, {case.label} over status quo"
        stage.expect(what, f"{printed} ×", median / quo, f"at most {limit} ×")
    stage.claim(
        "median slowdown, BBR against the laws that keep delay short",
        "the worst of all, 1.09 × status quo (here: worse than the best of them)",
        f"{bbr:.2f} against {min(delays):.2f}",
        bbr > min(delays),
    )


@figure("hosts", "requests of hosts with Reno and BBR", "4 min", "virtual")
def host_controllers(stage: Stage) -> None:
    cases = [
        case.set({"flow.requests.control": control}, control, f"{control}, {case.label}")
        for control in ("cubic", "reno", "bbr")
        for case in BOTH
    ]
    paper = (1.76, 1.26, math.nan, math.nan, 2.68, 1.14)
    medians = compare(stage, "Slowdown by hosts' control", cases, paper)
    printed = (("Cubic", "0.72 ×"), ("Reno", "below 1 ×"), ("BBR", "0.43 ×"))
    for (control, of_paper), quo, ours in zip(printed, medians[::2], medians[1::2]):
        what = f"median slowdown with {control} hosts, Bundler over status quo"
        stage.expect(what, of_paper, ours / quo, "at most 0.8 ×")


# %%
if __name__ == "__main__":
    bundle_controllers.main()
