# %% [markdown]
"""# MCTCP: a video player
Question of the paper's outlook: other applications. A video player requests a chunk every 2 s, over
two paths. 12 Mbit/s of video are more than one path carries.

12 Mbit/s of video are more than one path carries. A request is sent every 2 s, or when the previous
chunk is complete, whichever is later. Small requests are in `requests`, bulk transfers in all
others.
"""

# %%
from netarium_papers import Job, Run, Stage, figure, quantile
from netarium_papers.mctcp import CLOCKS, TRANSPORTS, suits
from netarium_papers.mctcp.grid import TOLERANCE
from netarium_papers.mctcp.stream import Spread

TITLE = "outlook: video chunks that no single path carries in time"
SCENES: tuple[tuple[str, str, dict[str, str]], ...] = (
    ("equal", "10 + 10 Mbit/s", {}),
    ("longer", "10 ms + 100 ms", {"link.path2.delay": "100 ms"}),
    ("lossy", "1 % loss on the second", {"link.path2.loss": "1 %"}),
    ("slower", "10 + 5 Mbit/s", {"link.path2.rate": "5 Mbit/s"}),
)
CHUNK_S = 2.0  # A chunk that takes longer is late.
LATE = "at most 2 %"  # Of the chunks.


def latency(run: Run, share: float) -> float:
    return quantile(run.round_trips("chunks"), share)


def late(run: Run) -> float:
    """Late chunks in %."""
    times = run.round_trips("chunks")
    return sum(time > CHUNK_S for time in times) / max(len(times), 1) * 100.0


@figure("applications", TITLE, "15 min", CLOCKS)
def video(stage: Stage) -> None:
    seeds = range(1, stage.size(3, 1) + 1)
    cells = [
        (*scene, transport, clock)
        for clock in stage.clocks()
        for scene in SCENES
        for transport in TRANSPORTS
        if suits(transport, clock)
    ]
    jobs = []
    for scene, _, links, transport, clock in cells:
        settings = {"lab.tolerance": TOLERANCE, "flow.chunks.transport": transport, **links}
        job = Job("mctcp/video.toml", f"{scene}-{transport}", clock, settings=settings)
        jobs += [job.named(f"{job.name}-{seed}").set("lab.seed", seed) for seed in seeds]
    runs = iter(stage.run(jobs, at_once=4))
    table = stage.table(
        "Chunks of 3 MB, one every 2 s: s until one has come, median and 99th percentile, and % "
        "that took longer than 2 s: medians of runs (least to largest)",
        ["paths", "clock", "carried by", "median", "p99", "late"],
    )
    for _, paths, _, transport, clock in cells:
        own = [next(runs) for _ in seeds]
        quantiles = [Spread.of(latency(run, share) for run in own) for share in (0.5, 0.99)]
        of = Spread.of(map(late, own))
        table.row(paths, clock, TRANSPORTS[transport], *quantiles, of)
        if transport == "mctcp":
            what = f"{paths}: chunks that came too late ({clock})"
            stage.expect(what, "", of.median, LATE, f"{of} %")


# %%
if __name__ == "__main__":
    video.main()
