# %% [markdown]
"""# SLBN: the state of a link
The point of the paper: with SLBN, a link keeps three numbers for any number of sessions. For each
protocol, sessions join a link at once until each has a first rate; then the state of the link is
measured.

Numbers are those that a protocol keeps at a link and changes; bytes are their memory here,
including all that tables have allocated. The bytes of a packet are those of its fields in memory,
not on the wire.
"""

# %%
from typing import Any, Sequence

from netarium_papers import Evidence, Stage, figure, measure, measure_each

SESSIONS = (100, 1_000, 10_000, 100_000, 1_000_000)
# Their papers say that a link keeps something for each session; with the others it does not.
LINEAR = ("bfyz", "erica", "b-neck")
SLBN_NUMBERS = 3
# By protocol, for each number of sessions: `numbers`, `bytes`, `packet_bytes`.
States = dict[str, list[dict[str, Any]]]


def growth(sizes: Sequence[int], numbers: Sequence[int]) -> str:
    """How the state depends on the number of sessions."""
    if len(set(numbers)) == 1:
        return "constant"
    grown = (numbers[-1] - numbers[0]) / (sizes[-1] - sizes[0])
    return "linear" if grown >= 1 else "neither constant nor linear"


@figure("state", "what a link keeps, by the number of its sessions", "2 min")
def state_of_link(stage: Stage) -> None:
    sizes = stage.size(SESSIONS, SESSIONS[:3])
    protocols = measure("measure", "protocols")["protocols"]
    found = measure_each(
        ("measure", "link-state", "--protocol", protocol, "--sessions", str(size))
        for protocol in protocols
        for size in sizes
    )
    states: States = {
        protocol: found[place * len(sizes) : (place + 1) * len(sizes)]
        for place, protocol in enumerate(protocols)
    }
    for title, y in (("Numbers that a link keeps", "numbers"), ("Memory that they take", "bytes")):
        plot = stage.plot(title, "sessions over the link", y, log="xy")
        for protocol, of in states.items():
            plot.line(protocol, [(size, state[y]) for size, state in zip(sizes, of)])
    heads = ["protocol", *(f"{size} sessions" for size in sizes), "bytes a packet"]
    table = stage.table("Numbers / bytes at a link", heads)
    for protocol, of in states.items():
        cells = (f"{state['numbers']} / {state['bytes']}" for state in of)
        table.row(protocol, *cells, of[-1]["packet_bytes"])
    claims(stage, sizes, states)


def claims(evidence: Evidence, sizes: Sequence[int], states: States) -> None:
    for protocol, of in states.items():
        numbers = [state["numbers"] for state in of]
        found, expected = growth(sizes, numbers), "linear" if protocol in LINEAR else "constant"
        detail = ": something for each session" if protocol in LINEAR else ""
        holds = found == expected
        if protocol == "slbn":
            detail, holds = ": three numbers", holds and numbers[-1] == SLBN_NUMBERS
        evidence.claim(
            f"state of a link as sessions grow ({protocol})",
            expected + detail,
            f"{found}: {numbers[0]} to {numbers[-1]} numbers",
            holds,
        )


# %%
if __name__ == "__main__":
    state_of_link.main()
