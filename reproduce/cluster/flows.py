# %% [markdown]
"""# Agreeing on shares: flows
Messages and bytes of each of eight agents by the number of flows. Notices depend on changes alone;
claims grow with flows, but more slowly.
"""

# %%
from typing import Sequence

from netarium_papers import Evidence, Stage, figure
from netarium_papers.cluster.agreement import NOTE, Load, Row, costs, growth, show

AGENTS = 8
FLOWS, SHORT_FLOWS = (125, 250, 500, 1_000, 2_000, 4_000, 8_000), (50, 100, 200)


@figure("flows", "bytes and messages of a machine, by the number of flows", "5 min")
def cost_by_flows(stage: Stage) -> None:
    for changes in (0, stage.size(100, 20)):
        counts = stage.size(FLOWS, SHORT_FLOWS)
        rows = costs(stage, [Load(AGENTS, flows, changes) for flows in counts])
        show(stage, f"{AGENTS} machines, {changes} changes/s", "flows", rows, "flows")
    claims(stage, rows)
    stage.note(NOTE)


def claims(evidence: Evidence, rows: Sequence[Row]) -> None:
    notices, of_claims = growth(rows, 0), growth(rows, 1)
    evidence.claim(
        "notices, as flows grow in number and changes do not",
        "depend on changes, not on flows (expected: at most twice as many bytes)",
        f"{notices:.2f} times as many bytes",
        notices <= 2,
    )
    times = rows[-1].load.flows / rows[0].load.flows
    evidence.claim(
        "claims, as flows grow in number and changes do not",
        "grow more slowly than flows (expected: less than half as much)",
        f"{of_claims:.2f} times as many bytes for {times:g} times as many flows",
        of_claims < times / 2,
    )


# %%
if __name__ == "__main__":
    cost_by_flows.main()
