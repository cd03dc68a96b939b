# %% [markdown]
"""# SplayNet, figure 3.6b
Round trips of remote procedure calls over two links of 10 to 100 ms each, compared with the sum of
the delays.

On the wall clock a call includes the time of two kernels and of the programs at both ends, which is
zero on the virtual clock.
"""

# %%
import math
from typing import Iterable, NamedTuple

from netarium_papers import Job, Run, Stage, cdf, figure, label, quantile

# Delays of each of the two links.
DELAYS_MS = (10, 25, 50, 75, 100)


class Calls(NamedTuple):
    """A run, the round-trip time of its path, and the deviations of its calls."""

    run: Run
    path_ms: int
    us: list[float]
    percent: list[float]


def calls(run: Run, delay_ms: int) -> Calls:
    path_ms, times_ms = 4 * delay_ms, [s * 1e3 for s in run.round_trips("call")]
    percent = [(ms / path_ms - 1) * 100 for ms in times_ms]
    return Calls(run, path_ms, [(ms - path_ms) * 1e3 for ms in times_ms], percent)


def largest(deviations: Iterable[float]) -> float:
    """The largest in either direction; infinite without any, so that no claim holds."""
    return max(map(abs, deviations), default=math.inf)


@figure(
    "3.6b",
    "round trips of remote procedure calls over links of 10 to 100 ms",
    "1 min",
    "wall virtual",
)
def round_trips(stage: Stage) -> None:
    jobs = []
    for clock, model in stage.settings():
        for delay in DELAYS_MS:
            job = Job("splaynet/rpc.toml", f"rpc-{delay}ms", clock, model)
            job = job.set("flow.call.count", stage.size(100, 10))
            for link in ("near", "far"):
                job = job.set(f"link.{link}.delay", f"{delay} ms")
            jobs.append(job)
    runs = stage.run(jobs, together=True)
    found = [calls(run, delay) for run, delay in zip(runs, DELAYS_MS * len(stage.settings()))]
    end = 5000 if max((us for of in found for us in of.us), default=0) > 5000 else None
    pooled = stage.plot(
        "Deviation from the round trip",
        "measured less the paths' delays, in µs",
        "% of calls",
        xlim=(None, end),
        ylim=(0, 100),
        note="All five round trips together, up to the 5 ms that the paper allows",
    )
    heads = ["run", "round trip", "calls", "p50 µs", "p99 µs", "max µs", "max %"]
    table = stage.table("Deviation from the round trip", heads)
    for setting in stage.settings():
        of = [one for one in found if (one.run.clock, one.run.model) == setting]
        name = label(*setting)
        for one in of:
            us = (f"{quantile(one.us, share):.1f}" if one.us else "–" for share in (0.5, 0.99, 1))
            most = max(map(abs, one.percent), default=0)
            table.row(name, f"{one.path_ms} ms", len(one.us), *us, f"{most:.4f}")
        all_us = [us for one in of for us in one.us]
        pooled.line(name, cdf(all_us))
        claims(stage, name, of, all_us)
        if largest(all_us) < 1:
            continue  # Vertical lines at zero.
        title = f"Deviation by round trip ({name})"
        plot = stage.plot(title, "deviation in %", "% of calls", ylim=(0, 100))
        for one in of:
            plot.line(f"{one.path_ms} ms", cdf(one.percent))


def claims(stage: Stage, name: str, of: list[Calls], us: list[float]) -> None:
    percent = largest(percent for one in of for percent in one.percent)
    stage.claim(
        f"off the round trip, as a share of it ({name})",
        "never more than 10 %",
        f"{percent:.3f} % at most",
        percent <= 10,
    )
    p50, p99 = quantile(us, 0.5), quantile(us, 0.99)
    stage.claim(
        f"off the round trip ({name})",
        "never more than 5 ms",
        f"p50 {p50:.0f} µs, p99 {p99:.0f} µs, {largest(us):.0f} µs at most",
        largest(us) <= 5000,
    )
    percent = largest(percent for one in of if one.path_ms >= 200 for percent in one.percent)
    stage.claim(
        f"off round trips of 200 ms and above ({name})",
        "within 2 %",
        f"{percent:.3f} % at most",
        percent <= 2,
    )


# %%
if __name__ == "__main__":
    round_trips.main()
