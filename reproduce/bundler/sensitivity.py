# %% [markdown]
"""# Bundler, beyond the paper: constants
Each constant of the detectors is halved and doubled within its range.
"""

# %%
import math
from typing import Any, NamedTuple, Sequence

import numpy

from netarium_papers import Run, Stage, figure, measure
from netarium_papers.bundler.cases import BUNDLER
from netarium_papers.bundler.harm import MEASURES, Compared
from netarium_papers.bundler.harm_settings import named

# Settings of `harm` in which detectors and guard are active.
SETTINGS = "alone loss-2 loss-bursts jitter-5 cubic site bbr on-off fast".split()
SHORT_SETTINGS = "alone jitter-5 cubic on-off".split()
# An effect on each measure in each setting below NO_EFFECT % is none; a mean effect above
# MAX_EFFECT % needs attention.
NO_EFFECT, MAX_EFFECT = 1, 20


class Effect(NamedTuple):
    """Effects of a value in %, positive if better: means over settings, and the largest."""

    means: list[float]
    largest: float


def number(value: float) -> str:
    """The shortest decimal number without an exponent."""
    return numpy.format_float_positional(value, trim="-")


def signed(value: float, digits: int) -> str:
    """With a sign, unless it is zero when rounded."""
    text = f"{value:+.{digits}f}"
    return text if float(text) else text[1:]


def run_all(stage: Stage, constant: str = "", value: float = 0) -> list[list[Run]]:
    """Runs of all settings, with a value of a constant if it is named."""
    common = {"lab.duration": stage.size("30 s", "15 s"), "flow.bulk.window": "100 MB"}
    own = {"bundle.site.constants": f"{constant} = {number(value)}"} if constant else {}
    suffix = f"-{constant}-{number(value)}" if constant else ""
    seeds, jobs = stage.size(3, 1), []
    for name, fields, lab in named(stage.size(SETTINGS, SHORT_SETTINGS)):
        case = BUNDLER.set({**common, **fields, **own}, name + suffix)
        jobs += [case.job(lab, "virtual", seed) for seed in range(1, seeds + 1)]
    runs = stage.run(jobs)
    return [runs[at : at + seeds] for at in range(0, len(runs), seeds)]


def changed(constant: dict[str, Any], factor: float) -> float | None:
    """Half or twice the value within the range; None if it is the value itself."""
    low, high = constant["range"]
    value = min(max(factor * constant["value"], low), high)
    return None if value == constant["value"] else value


def effect(before: Sequence[Sequence[Run]], after: Sequence[Sequence[Run]]) -> Effect:
    percent = [
        [100 * math.expm1(Compared.read(of, *runs).gain) for runs in zip(before, after)]
        for _, of in MEASURES
    ]
    means = [sum(values) / len(values) for values in percent]
    return Effect(means, max((value for values in percent for value in values), key=abs))


@figure("sensitivity", "beyond the paper: each constant halved and doubled", "2 h", "virtual")
def sensitivity(stage: Stage) -> None:
    usual = run_all(stage)
    table = stage.table(
        "Mean change of bulk goodput / requests p50 / p99, positive is better; the largest change "
        "in a setting",
        ["constant", "default", "range", "chosen by", "halved, %", "doubled, %", "max, %"],
    )
    idle, large = [], []
    for constant in measure("measure", "bundle-constants")["constants"]:
        name, values = constant["name"], [changed(constant, factor) for factor in (0.5, 2)]
        effects = [of if of is None else effect(usual, run_all(stage, name, of)) for of in values]
        known = [of for of in effects if of]
        largest = max((of.largest for of in known), key=abs, default=0.0)
        if abs(largest) < NO_EFFECT:
            idle.append(name)
        if any(abs(mean) > MAX_EFFECT for of in known for mean in of.means):
            large.append(name)
        table.row(
            name,
            f"{number(constant['value'])} {constant['unit']}".strip(),
            " to ".join(map(number, constant["range"])),
            constant["source"],
            *(" / ".join(signed(mean, 1) for mean in of.means) if of else "–" for of in effects),
            signed(largest, 0),
        )
    what = f"constants whose halving or doubling changes a mean by more than {MAX_EFFECT} %"
    ours, total = f"{len(large)} of {len(table.rows)}: {', '.join(large)}", len(table.rows)
    paper = "not in the paper (expected: at most 10 %)"
    stage.claim(what, paper, ours, len(large) * 10 <= total)
    names = ", ".join(idle)
    stage.note(f"{len(idle)} constants change no measure by {NO_EFFECT} % in any setting: {names}.")
    stage.note(f"Settings of `harm`: {', '.join(stage.size(SETTINGS, SHORT_SETTINGS))}.")


# %%
if __name__ == "__main__":
    sensitivity.main()
