# %% [markdown]
"""# MCTCP: small requests
Requests of 1 KiB over an open session, with and without loss, and sessions of one small transfer.
MCTCP should be as fast as TCP.
"""

# %%
from netarium_papers import Job, Run, Stage, figure, quantile
from netarium_papers.mctcp import CLOCKS, TRANSPORTS, suits
from netarium_papers.mctcp.grid import TOLERANCE
from netarium_papers.mctcp.stream import Spread, claim

RTT_MS = 20.0
TITLE = "1 KiB over an open session and over a new one, beside plain TCP"


def latency(run: Run, share: float) -> float:
    """A quantile of the times of requests after the first, in ms."""
    return quantile(run.round_trips("requests")[1:], share) * 1e3


def completion(run: Run) -> float:
    """The median time of a transfer in ms."""
    times = run.frame("transfers")["completion_ns"].drop_nulls().to_list()
    return quantile(times, 0.5) / 1e6


def jobs(stage: Stage, transport: str, clock: str, loss: str) -> list[Job]:
    settings = {f"flow.{flow}.transport": transport for flow in ("requests", "transfers")}
    settings.update({f"link.path{path}.loss": loss for path in (1, 2)})
    if clock == "wall":
        settings["lab.tolerance"] = TOLERANCE
    job = Job("mctcp/requests.toml", "", clock, settings=settings)
    seeds = range(1, stage.size(5, 1) + 1)
    return [job.named(f"{transport}-{loss[0]}-{seed}").set("lab.seed", seed) for seed in seeds]


def measured(stage: Stage, transport: str, clock: str) -> list[Spread]:
    """Median and p99 of requests, the median of transfers, and p99 of requests with loss."""
    # One at a time on the wall clock: other runs would delay packets.
    runs, lossy = (stage.run(jobs(stage, transport, clock, loss)) for loss in ("0 %", "2 %"))
    return [
        Spread.of(latency(run, 0.5) for run in runs),
        Spread.of(latency(run, 0.99) for run in runs),
        Spread.of(completion(run) for run in runs),
        Spread.of(latency(run, 0.99) for run in lossy),
    ]


@figure("requests", TITLE, "10 min", CLOCKS)
def small_requests(stage: Stage) -> None:
    heads = ["carried by", "clock", "request, median", "request, p99", "transfer, median"]
    table = stage.table(
        "ms from a request of 1 KiB to its response of 1 KiB, and ms that a transfer of 1 KiB over "
        "a connection of its own takes: medians of runs (least to largest)",
        [*heads, "request, p99, 2 % loss"],
    )
    for clock in stage.clocks():
        found = []
        for transport, name in TRANSPORTS.items():
            if suits(transport, clock):
                found.append(measured(stage, transport, clock))
                table.row(name, clock, *found[-1])
            else:
                found.append([Spread()] * 4)
        median, _, transfer, lossy = zip(*found)
        what = "1 KiB request over an open session, median, over TCP's"
        claim(stage, clock, what, median[:2], over=median[2].median, at_most=1.05)
        what = "1 KiB over a new session: round trips more than TCP takes"
        tcp = transfer[2].median
        more = [Spread(*((value - tcp) / RTT_MS for value in of)) for of in transfer[:2]]
        claim(stage, clock, what, more, at_most=0.1)
        what = "1 KiB request over an open session, 2 % loss: p99 in ms"
        claim(stage, clock, what, lossy, at_most=60.0)


# %%
if __name__ == "__main__":
    small_requests.main()
