# %% [markdown]
"""# MCTCP: random transfers
A thousand transfers with random paths, buffers and events: all must be complete and correct.

Each transfer draws its size, the rates (1 to 20 Mbit/s), delays (1 to 150 ms) and losses (up to 20
%) of both paths, its buffers (64 KiB to 1 MiB), and twelve events in the first 20 s, half of which
begin or end the outage of a path. At the end both paths are usable. One receiver of four reads
nothing for 30 s. A transfer that is not complete after 300 s has hung.
"""

# %%
from netarium_papers import RandomStream, Run, Stage, figure
from netarium_papers.mctcp import CARRIERS, CLOCKS
from netarium_papers.mctcp.grid import Case, Grid, Lab
from netarium_papers.mctcp.stream import BULK, Spread, gap, reordered_kb

LAB = Lab("mctcp/random.toml", ("path1", "path2"))
TITLE = "1,000 transfers with random events, loss up to 20 %, buffers from 64 KiB"
TRANSFERS = {"virtual": (1000, 40), "wall": (120, 6)}  # Numbers, full and short.
PAUSE_MS = 30_000  # Some receivers read nothing for this time.
MAX_MEMORY = 1.2  # Times the credit.
EVENTS = 12


def transfer(number: int) -> tuple[Case, int]:
    """A transfer by its number, and its buffers in bytes."""
    random = RandomStream(number, "mctcp/random")

    def between(low: int, high: int) -> int:
        return low + random.below(high - low + 1)

    buffer = 64 << between(0, 4)
    settings = {"lab.seed": str(number), "flow.bulk.size": f"{between(1_000, 10_000)} kB"}
    settings["flow.bulk.window"] = f"{buffer} KiB"
    for path in (1, 2):
        rate, delay, loss = between(1, 20), between(1, 150), between(0, 20)
        settings[f"link.path{path}.rate"] = f"{rate} Mbit/s"
        settings[f"link.path{path}.delay"] = f"{delay} ms"
        settings[f"link.path{path}.loss"] = f"{loss if between(0, 1) else 0} %"
    for event, time in enumerate(sorted(between(100, 20_000) for _ in range(EVENTS)), 1):
        # Events alternate between the paths; the last two leave both paths usable.
        kind, is_last, loss = between(0, 3), event > EVENTS - 2, 0
        if kind < 2 and not is_last:
            loss = between(0, 20) if kind else 100
        elif kind == 2:
            loss = between(0, 5)
        rate, delay = between(1, 20), between(1, 150)
        values = f'loss = "{loss} %", delay = "{delay} ms", rate = "{rate} Mbit/s"'
        settings.update({f"at.{event}.time": f"{time} ms", f"at.{event}.set": f"{{ {values} }}"})
    if between(0, 3) == 0:
        start = between(100, 20_000)
        settings["flow.bulk.pause"] = f'["{start} ms", "{start + PAUSE_MS} ms"]'
    return Case(LAB, 2, f"random-{number}", "", settings), buffer << 10


def memory(run: Run, buffer: int) -> float:
    """Bytes that the receiver holds, over its credit, which is twice its buffers."""
    flow = run.flow(BULK)
    return max(flow["reorder_max_bytes"] or 0, flow["buffered_max_bytes"] or 0) / (2 * buffer)


@figure("random", TITLE, "60 min", CLOCKS)
def random_transfers(stage: Stage) -> None:
    heads = ["clock", "carried by", "transfers", "completed", "hung", "wrong", "s"]
    table = stage.table(
        "Transfers of 1 to 10 MB: how many were whole within 300 s, how many hung or failed; s "
        "they took, their longest gaps in s, kB that waited for earlier bytes: medians (least to "
        "largest)",
        [*heads, "longest gap", "waited at most"],
    )
    for clock in stage.clocks():
        cases = [transfer(number) for number in range(1, stage.size(*TRANSFERS[clock]) + 1)]
        grid = Grid(stage, [case for case, _ in cases], **{"virtual": 0, "wall": 0, clock: 1})
        for carrier, name in CARRIERS.items():
            runs = [run for case, _ in cases for run in grid.runs(case, carrier, clock)]
            if not runs:
                continue
            wrong, hung, times = [], [], []
            for run in runs:
                flow = run.flow(BULK)
                if flow["error"]:
                    wrong.append(run.job.name)
                elif flow["completion_s"] is None:
                    hung.append(run.job.name)
                else:
                    times.append(flow["completion_s"])
            counts = [len(runs), len(times), len(hung), len(wrong)]
            spreads = [Spread.of(of) for of in (times, map(gap, runs), map(reordered_kb, runs))]
            table.row(clock, name, *counts, *spreads)
            if carrier == "mctcp":
                all_of = f"{len(runs)} random transfers"
                most = max(memory(run, buffer) for run, (_, buffer) in zip(runs, cases))
                what = f"{all_of}: bytes that were kept, over the credit ({clock})"
                limit = f"required: at most {MAX_MEMORY}"
                stage.claim(what, limit, f"{most:.2f}", most <= MAX_MEMORY)
                for kind, failed in (("hung", hung), ("wrong bytes", wrong)):
                    first = f" ({failed[0]} …)" if failed else ""
                    ours = f"{len(failed)} of {len(runs)}{first}"
                    stage.claim(f"{all_of}: {kind} ({clock})", "required: 0", ours, not failed)


# %%
if __name__ == "__main__":
    random_transfers.main()
