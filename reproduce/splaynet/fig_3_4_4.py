# %% [markdown]
"""# SplayNet, section 3.4.4
150 nodes on an Internet-like topology, with flows that start and end: shares after each change
compared with a solution from scratch, and the time until they are applied.
"""

# %%
import math

from netarium_papers import Evidence, Job, Plot, Run, Stage, cdf, figure, quantile
from netarium_papers.splaynet.live_flows import LiveFlows, Sample, samples

# All shares must be the new ones, within the tolerance, after this time.
SETTLED_NS = 100 * 10**6
TOLERANCE = 0.01
PAPER_NOTICE_MS = 7.36


@figure(
    "3.4.4",
    "150 nodes on an Internet-like topology: shares after each change, notice delay",
    "1 min",
    "wall virtual",
)
def large_topology(stage: Stage) -> None:
    lab = stage.size("splaynet/large.toml", "splaynet/large-short.toml")
    jobs = []
    for clock, model in stage.settings():
        job = Job(lab, "large", clock, model)
        if model == "collapsed":
            # Without a window the shares follow from the lab file alone.
            jobs.append(job.set("lab.window", "off"))
        elif clock == "virtual":
            jobs.append(job)
    runs = stage.run(jobs)
    collapsed = [run for run in runs if run.model == "collapsed"]
    if not collapsed:
        return
    flows = LiveFlows(collapsed[0])
    shares = {run.folder: samples(run) for run in collapsed}
    title = "Largest error of a share, at samples at least 100 ms after the last change"
    plot = stage.plot(title, "time in s", "relative error in %", log="y")
    for run in collapsed:
        notices(stage, run)
        compare(stage, run, flows, shares[run.folder], plot)
    ends = [(0.0, TOLERANCE * 100), (collapsed[0].elapsed_s, TOLERANCE * 100)]
    plot.line("1 %", ends, style="reference")
    plot = stage.plot("Live flows", "time in s", "flows", ylim=(0, None))
    live = [(at / 1e9, len(flows.live(at))) for at in flows.changes()]
    plot.line("TCP and UDP, one way", live, style="steps")
    table = stage.table(
        "TCP goodput as a part of what the flow's share has room for",
        ["run", "flow seconds", "p10", "median", "p90", "all together"],
    )
    plot = stage.plot(
        "TCP goodput in whole seconds, as a part of the share's room",
        "goodput / (share × payload of a full segment)",
        "flow seconds in %",
        xlim=(0, 2),
    )
    for run in runs:
        found = flows.achieved(shares.get(run.folder, shares[collapsed[0].folder]), run)
        together = sum(goodput for goodput, _ in found) / sum(room for _, room in found)
        parts = [goodput / room for goodput, room in found]
        p10, median, p90 = (quantile(parts, share) for share in (0.1, 0.5, 0.9))
        cells = (f"{part:.3f}" for part in (p10, median, p90, together))
        table.row(run.label, len(parts), *cells)
        if run.model == "collapsed":
            # Payload that arrives in a second was sent with earlier shares, which are larger
            # while the number of flows grows: the ratio may exceed 1.
            stage.claim(
                f"TCP goodput beside the shares, from 1 s after a start ({run.label})",
                "flows get their share",
                f"{together * 100:.1f} % of what the shares have room for, median flow and second "
                f"{median * 100:.1f} %",
                0.9 <= together <= 1.08 and 0.9 <= median <= 1.05,
            )
        plot.line(run.label, cdf(parts))
    if len(runs) > len(collapsed):
        stage.note(
            "Rates of the packet model are compared with the shares of the collapsed model. In the "
            "packet model, CUBIC shares drop-tail queues: flows over several congested links, or "
            "with long round trips, get less than the model gives them, others more."
        )


def notices(evidence: Evidence, run: Run) -> None:
    """The delay from the packet that starts or ends a flow until all shares are applied."""
    delay = run.record.get("notice_delay")
    if not delay:
        return
    machines = len((run.record.get("cluster") or {"members": [0]})["members"])
    mean, p99, most = (delay[key] / 1e6 for key in ("mean_ns", "p99_ns", "max_ns"))
    evidence.claim(
        f"from a packet that changes the flows to all shares in force ({run.label})",
        f"mean {PAPER_NOTICE_MS} ms, 150 nodes on 60 machines",
        f"mean {mean:.3f} ms, p99 {p99:.3f} ms, max {most:.3f} ms over {delay['count']} changes, "
        + ("one machine" if machines == 1 else f"{machines} machines"),
        mean <= PAPER_NOTICE_MS,
    )


def compare(
    evidence: Evidence, run: Run, flows: LiveFlows, shares: list[Sample], plot: Plot
) -> None:
    """Claims and points on shares and those of a solution from scratch."""
    found = flows.moments(shares, SETTLED_NS)
    total: dict[str, int] = {
        key: sum(getattr(moment, key) for moment in found)
        for key in ("live", "missing", "draining", "unexpected")
    }
    evidence.claim(
        f"the flows that are live by the lab file have shares, and no others ({run.label})",
        "every node knows all flows",
        f"{total['missing']} of {total['live']} missing, {total['unexpected']} too many, in "
        f"{len(found)} samples",
        total["live"] > 0 and total["missing"] == total["unexpected"] == 0,
    )
    if total["draining"]:
        evidence.note(
            f"{total['draining']} shares of {run.label} belong to flows that have ended but whose "
            "last packets are queued: a flow counts until its FIN or RST has left."
        )
    errors = [error for moment in found for error in moment.errors]
    worst = max(errors, default=0.0)
    tail = quantile(errors, 0.99) if errors else math.inf
    evidence.claim(
        f"shares 100 ms and more after a change, beside a solution from scratch ({run.label})",
        "not printed; wanted: within 1 %",
        f"max {percent(worst)} off, p99 {percent(tail)}, {len(errors)} shares",
        bool(errors) and worst <= TOLERANCE,
    )
    demands = [demand for moment in found for demand in moment.demands]
    if demands:
        low, middle, high = (quantile(demands, share) for share in (0.01, 0.5, 0.99))
        evidence.note(
            "The demand of datagrams is the larger of the bytes sent in two periods of 50 ms: "
            f"{middle:.2f} times their true rate in the median, {low:.2f} to {high:.2f} times in "
            f"98 % of the samples ({run.label}). The oracle takes the measured rates."
        )
    # Errors below a bit/s in a Mbit/s are rounding.
    points = [(of.at_s, max([1e-8, *of.errors]) * 100) for of in found]
    plot.line(run.label, points, style="dots")


def percent(part: float) -> str:
    return "less than 0.001 %" if part * 100 < 0.001 else f"{part * 100:.3f} %"


# %%
if __name__ == "__main__":
    large_topology.main()
