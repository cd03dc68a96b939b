# %% [markdown]
"""# Bundler, beyond the paper: harm
A site with five bulk transfers, requests at 25 % of the rate and a ping loop, on many paths and
beside different cross traffic. Each run is compared with one of the same seed without control.

The interval of a setting follows from the scatter of its own seeds if there are at least four,
otherwise from the median scatter of all settings.
"""

# %%
import math
from typing import NamedTuple, Sequence

from netarium_papers import Run, Stage, cdf, figure, moments, quantile
from netarium_papers.bundler.cases import run_pairs, times
from netarium_papers.bundler.harm_settings import Setting, design, fixed, named
from netarium_papers.bundler.wall_check import TOLERANCE as MAX_LATENESS

# Settings on the wall clock: the worst of the first report, and those that still do harm.
WALL = "alone loss-2 loss-5 loss-bursts jitter-8 video requests-50 on-off site bbr".split()
TOLERANCE = 0.05  # A measure that is worse by more than this is harm.
# From this number of seeds on the scatter of a setting counts, else the median of all settings.
MIN_SEEDS = 4
# 97.5 % quantiles of the normal distribution, and of Student's with 4 degrees of freedom.
NORMAL, STUDENT = 1.96, 2.78
# The median of the chi-square distribution with one degree of freedom, that of two seeds.
MEDIAN_CHI_SQUARE = 0.455
MAX_ROWS = 40
# Segment size, and Cubic's constants (RFC 9438, section 4).
SEGMENT_BYTES, CUBIC_C, CUBIC_BETA = 1500, 0.4, 0.7
CLOCKS = {"virtual": "virtual clock", "wall": "wall clock, kernel TCP"}
# What is compared: label, and percentile of the completion times of requests, or goodput.
MEASURES = (("bulk goodput", ""), ("requests, p50", "p50_ns"), ("requests, p99", "p99_ns"))


def cubic_recovery_s(mbits: float, rtt_ms: float, buffer: float, flows: int) -> float:
    """Time after a loss until Cubic's window is again that of a full buffer: RFC 9438, 4.2.

    It bounds what a bundle can keep beside flows that start later. Without a bundle the windows
    are this large when the other flows start; a bundle with a short queue starts from 1 / (1 +
    `buffer`) of them, and needs at least this time.
    """
    window = (1 + buffer) * mbits * 1e3 * rtt_ms / 8 / SEGMENT_BYTES / flows
    return float(((1 - CUBIC_BETA) * window / CUBIC_C) ** (1 / 3))


class Compared(NamedTuple):
    """Means of a measure, and the logarithms of its ratios by seed: below 0 Bundler is worse."""

    quo: float
    ours: float
    gains: list[float]

    @classmethod
    def read(cls, percentile: str, quo: Sequence[Run], ours: Sequence[Run]) -> "Compared":
        of_quo, of_ours = ([value(percentile, run) for run in of] for of in (quo, ours))
        return cls.of(-1 if percentile else 1, of_quo, of_ours)

    @classmethod
    def of(cls, sign: int, quo: Sequence[float], ours: Sequence[float]) -> "Compared":
        """`sign` is 1 if a larger value is better, otherwise -1."""
        # A difference of logarithms: the quotient may be 0.
        logs = [[math.log(max(of, 1e-6)) for of in values] for values in (quo, ours)]
        gains = [sign * (after - before) for before, after in zip(*logs)]
        return cls(moments(quo).mean, moments(ours).mean, gains)

    @property
    def gain(self) -> float:
        return moments(self.gains).mean

    @property
    def variance(self) -> float:
        count = len(self.gains)
        return moments(self.gains).deviation ** 2 * count / max(count - 1, 1)

    def half(self, variance: float) -> float:
        """50 % of the 95 % interval of the gain, with the scatter of all settings together."""
        own = len(self.gains) >= MIN_SEEDS
        factor, variance = (STUDENT, self.variance) if own else (NORMAL, variance)
        return factor * math.sqrt(variance / len(self.gains))

    def is_harmful(self, variance: float) -> bool:
        """The measure is worse by more than the tolerance, beyond chance."""
        return self.gain + self.half(variance) < math.log(1 - TOLERANCE)


def value(percentile: str, run: Run) -> float:
    """A percentile of the completion times of requests in ms, or the bulk goodput in Mbit/s."""
    if not percentile:
        return float(run.flow("bulk")["goodput_bit_per_s"]) / 1e6
    times_ns = run.flow("requests").get("completion")
    return float(times_ns[percentile]) / 1e6 if times_ns else math.inf


@figure("harm", "beyond the paper: settings in which control might do harm", "3 h", "virtual wall")
def harm(stage: Stage) -> None:
    for clock in stage.clocks():
        is_virtual = clock == "virtual"
        settings = stage.size(design, fixed)() if is_virtual else named(WALL)
        seeds = stage.size(5 if is_virtual else 4, 2)
        # Kernels open windows by themselves.
        common = {"flow.bulk.window": "100 MB"} if is_virtual else {"lab.tolerance": MAX_LATENESS}
        common["lab.duration"] = stage.size("30 s", "20 s")
        rows, processor_s = [], [0.0, 0.0]
        for name, fields, lab in settings:
            (pair,) = run_pairs(stage, lab, {name: {**common, **fields}}, seeds, clock)
            rows.append([Compared.read(percentile, *pair) for _, percentile in MEASURES])
            for at, runs in enumerate(pair):
                processor_s[at] += sum(run.record["host"]["cpu_s"] for run in runs)
        compare(stage, clock, settings, rows)
        if not is_virtual:
            quo, ours = (total / (len(settings) * seeds) for total in processor_s)
            stage.note(
                f"Processor time of a run {quo:.1f} s with gateways that observe, {ours:.1f} s "
                f"with Bundler ({CLOCKS[clock]})."
            )
    near, far = cubic_recovery_s(33, 60, 2, 5), cubic_recovery_s(142, 89, 6, 5)
    stage.note(
        f"A bound for flows of others that start later: five Cubic flows need {near:.1f} s at 33 "
        f"Mbit/s, 60 ms and 2 bandwidth-delay products, and {far:.1f} s at 142 Mbit/s, 89 ms and "
        "6, to return to the windows that they have without Bundler."
    )


def compare(
    stage: Stage, clock: str, settings: Sequence[Setting], rows: Sequence[Sequence[Compared]]
) -> None:
    columns = list(zip(*rows))
    # The median: few settings beside elastic traffic scatter more than all others together.
    medians = (quantile([of.variance for of in column], 0.5) for column in columns)
    variances = [median / MEDIAN_CHI_SQUARE for median in medians]
    tabulate(stage, clock, list(zip(settings, rows)), variances)
    title = f"Harm and benefit ({CLOCKS[clock]})"
    x, y = "Bundler over status quo, better to the right", "% of the settings"
    plot = stage.plot(title, x, y, xlim=(0, 3), ylim=(0, None))
    for (label, _), column, variance in zip(MEASURES, columns, variances):
        pairs = zip(settings, column)
        names = [setting.name for setting, of in pairs if of.is_harmful(variance)]
        found = f"{len(names)}: {', '.join(names)}" if names else "none"
        what = f"settings of {len(settings)} in which {label} is worse by more than 5 %"
        paper = "not in the paper (expected: none)"
        stage.claim(f"{what}, {CLOCKS[clock]}", paper, found, not names)
        ratios = [math.exp(of.gain) for of in column]
        plot.line(label, cdf(ratios))
        median = times(quantile(ratios, 0.5))
        stage.note(f"{CLOCKS[clock]}, {label}: median ratio {median} (above 1 is better).")


def tabulate(
    stage: Stage,
    clock: str,
    rows: Sequence[tuple[Setting, Sequence[Compared]]],
    variances: Sequence[float],
) -> None:
    table = stage.table(
        f"Status quo → Bundler ({CLOCKS[clock]}), means of the seeds, the worst settings first; "
        "ratios are geometric means with 95 % intervals",
        ["setting", "bulk, Mbit/s", "ratio", "p50, ms", "ratio", "p99, ms", "ratio"],
    )
    worst_first = sorted(rows, key=lambda row: min(of.gain for of in row[1]))
    for setting, compared in worst_first[:MAX_ROWS]:
        cells = []
        for (_, percentile), of, variance in zip(MEASURES, compared, variances):
            log, half = -of.gain if percentile else of.gain, of.half(variance)
            ratio, low, high = map(math.exp, (log, log - half, log + half))
            cells += [f"{of.quo:.1f} → {of.ours:.1f}", f"{ratio:.2f} ({low:.2f}–{high:.2f})"]
        table.row(setting.name, *cells)


# %%
if __name__ == "__main__":
    harm.main()
