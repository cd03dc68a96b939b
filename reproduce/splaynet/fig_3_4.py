# %% [markdown]
"""# SplayNet, figure 3.4
Deviation from the expected sleep. In the paper it is about 0.1 µs with Linux 2.6.

The paper's figure is about sleeping. A sleep cannot be more precise than the wake-up of a
processor, which takes tens of µs in a virtual machine. Runs therefore end sleeps early by the usual
wake-up time, and with `precision = "high"` (hybrid) by 100 µs, and poll the clock for the rest.
"""

# %%
from statistics import fmean

from netarium_papers import Evidence, PaperError, Stage, figure, measure, quantile

# Deviations in µs of the waits in a way for an expected sleep in µs.
Waits = dict[tuple[str, int], list[float]]

LENGTHS_US = (0, 100, 300, 1_000, 3_000, 10_000, 20_000, 40_000, 60_000, 80_000, 100_000)
PAPER_US = 0.1
MIN_US = 0.01  # Of the plots
# A sleep; one that ends earlier, then polling the clock; polling the clock.
SLEEP, HYBRID, SPIN = WAYS = ("sleep", "hybrid", "spin")


@figure("3.4", "timer accuracy: deviation from expected sleeps of 0 to 100 ms", "1 min")
def timer_accuracy(stage: Stage) -> None:
    each_ms = stage.size(600, 80)
    judged = "ordinary", measured(False, each_ms)
    show(*judged, stage)
    try:
        judged = "real-time", measured(True, each_ms)
        show(*judged, stage)
    except PaperError as error:
        stage.note(f"Real-time scheduling is not allowed here: {error}.")
    claims(*judged, stage)


def measured(is_real_time: bool, each_ms: int) -> Waits:
    """Waits of all lengths in all ways, each for about a time, as a data path waits."""
    words = ["measure", "timers", "--each", f"{each_ms} ms"]
    words += [word for us in LENGTHS_US for word in ("--expected", f"{us} us")]
    words += ["--real-time"] if is_real_time else []
    return {
        (of["method"], of["expected_ns"] // 1000): [ns / 1e3 for ns in of["late_ns"]]
        for of in measure(*words)["waits"]
    }


def claims(scheduling: str, waits: Waits, evidence: Evidence) -> None:
    for way in (HYBRID, SPIN):
        evidence.claim(
            f"deviation from the expected sleep, {way}, {scheduling}",
            "about 0.1 µs (Linux 2.6), a few µs (Linux 2.4, FreeBSD)",
            summary(waits, way),
            quantile(medians(waits, way), 0.5) <= PAPER_US,
        )


def show(scheduling: str, waits: Waits, evidence: Evidence) -> None:
    title = f"Deviation from the expected sleep, {scheduling} scheduling"
    labels = ("expected sleep in ms", "deviation in µs")
    note = f"Deviations below {MIN_US} µs are drawn there."
    plot = evidence.plot(title, *labels, log="y", xlim=(0, 100), note=note)
    for name, share, style in (("median", 0.5, "line"), ("p99", 0.99, "dots")):
        for way in WAYS:
            of = ((us / 1e3, quantile(waits[way, us], share)) for us in LENGTHS_US)
            plot.line(f"{way}, {name}", [(ms, max(late, MIN_US)) for ms, late in of], style=style)
    plot.line("paper, Linux 2.6", [(0, PAPER_US), (100, PAPER_US)], style="reference")
    heads = ["way", "expected", "waits", "mean µs", "p50 µs", "p99 µs", "max µs"]
    table = evidence.table(f"Deviation, {scheduling} scheduling", heads)
    for (way, us), late in waits.items():
        expected = f"{us // 1000} ms" if us >= 1000 else f"{us} us" if us else "0 ns"
        quantiles = (quantile(late, share) for share in (0.5, 0.99, 1))
        table.row(way, expected, len(late), *map(number, (fmean(late), *quantiles)))
    for way in (SLEEP, HYBRID):
        factor = number(quantile(medians(waits, way), 0.5) / PAPER_US)
        text = f"{summary(waits, way)}; {factor} times the paper's {PAPER_US} µs"
        evidence.note(f"{way}, {scheduling}: {text}.")


def medians(waits: Waits, way: str) -> list[float]:
    """The median deviation of each length above 0."""
    return [quantile(waits[way, us], 0.5) for us in LENGTHS_US[1:]]


def summary(waits: Waits, way: str) -> str:
    of = medians(waits, way)
    late = [value for us in LENGTHS_US[1:] for value in waits[way, us]]
    values = (quantile(of, 0.5), max(of), fmean(late), quantile(late, 0.99))
    text = "median {} µs (worst length {}), mean {} µs, p99 {} µs"
    return text.format(*map(number, values))


def number(value: float) -> str:
    """With about three digits."""
    return f"{value:.{0 if abs(value) >= 100 else 1 if abs(value) >= 1 else 2}f}"


# %%
if __name__ == "__main__":
    timer_accuracy.main()
