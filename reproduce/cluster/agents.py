# %% [markdown]
"""# Agreeing on shares: agents
Messages and bytes of an agent by the number of agents: of the same lab, and of a lab that grows
with the agents.
"""

# %%
from typing import Sequence

from netarium_papers import Evidence, Stage, figure
from netarium_papers.cluster.agreement import NOTE, SHARINGS, Load, Row, costs, growth, show

AGENTS, SHORT_AGENTS = (1, 2, 4, 8, 16, 32, 64), (2, 4, 8)
# Flows of each agent where the lab grows with the agents; two of them have one change in 1 s.
OWN_FLOWS = 25
# Metadata of 160 containers on 4 hosts with Kollaps (EuroSys 2020), in B/s.
KOLLAPS = 0.5e6


@figure("agents", "bytes and messages of a machine, by the number of machines", "5 min")
def cost_by_agents(stage: Stage) -> None:
    counts = stage.size(AGENTS, SHORT_AGENTS)
    flows, changes = stage.size((1_000, 100), (100, 20))
    fixed = costs(stage, [Load(agents, flows, changes) for agents in counts])
    loads = [Load(agents, agents * OWN_FLOWS, (agents + 1) // 2) for agents in counts]
    grown = costs(stage, loads)
    show(stage, f"{flows} flows, {changes} changes/s in all", "machines", fixed, "agents")
    title = f"{OWN_FLOWS} flows and a change every 2 s for each machine"
    show(stage, title, "machines", grown, "agents")
    claims(stage, fixed, [row for row in grown if row.load.agents > 1])
    stage.note(NOTE)


def claims(evidence: Evidence, fixed: Sequence[Row], grown: Sequence[Row]) -> None:
    (four,) = (row for row in fixed if row.load.agents == 4)
    for place, name in enumerate(SHARINGS):
        wire = four.wire(place) * 4
        evidence.claim(
            f"metadata of 150 hosts on 4 machines, {name}",
            "Kollaps: below 500 kB/s with 160 containers on 4 hosts",
            f"{wire / 1e3:.1f} kB/s on the wire of all",
            wire < KOLLAPS,
        )
    times, notices = grown[-1].load.agents / grown[0].load.agents, growth(grown, 0)
    evidence.claim(
        "a machine's notices where the lab grows with the machines",
        "grow with all flows of the lab (expected)",
        f"{notices:.1f} times as many bytes on {times:g} times as many machines",
        notices > times / 2,
    )


# %%
if __name__ == "__main__":
    cost_by_agents.main()
