"""Measured costs of agreeing on shares, by the number of agents, flows and changes."""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

from netarium_papers import Evidence, Stage, measure_each

LAB = "splaynet/large.toml"
# Ways of agreeing: names in print, and as in `sharing` of labs.
SHARINGS = {"notices": "rtt-max-min", "claims (slbn)": "slbn"}
# Bytes around a message that is sent alone: Ethernet with preamble and gap, IPv4, TCP with
# timestamps, and a measured header of Zenoh.
HEADER_BYTES = 38 + 20 + 32 + 18
NOTE = (
    "Simulated: the state machines and codecs of the agents on the virtual clock; a message takes "
    "0.3 to 0.5 ms, and none is lost. Payload is what agents hand to the transport; the wire adds "
    "108 B to each message, as if each were sent alone in a TCP segment over Ethernet."
)


class Load(NamedTuple):
    """Agents of a lab, its flows, and its changes in 1 s."""

    agents: int
    flows: int
    changes: int


class Row(NamedTuple):
    """A load, and messages and bytes of payload that an agent sends in 1 s under each sharing."""

    load: Load
    messages: tuple[float, ...]
    payload: tuple[float, ...]

    def wire(self, place: int) -> float:
        """Bytes with headers."""
        return self.payload[place] + self.messages[place] * HEADER_BYTES


def measured(stage: Stage, loads: Sequence[Load], *words: str) -> list[dict[str, Any]]:
    """The measurements of each load under each sharing."""
    lab = str(stage.file(LAB))
    return measure_each(
        ("measure", "agreement", lab, "--sharing", sharing, *options(load), *words)
        for load in loads
        for sharing in SHARINGS.values()
    )


def options(load: Load) -> list[str]:
    return [word for name, value in load._asdict().items() for word in (f"--{name}", str(value))]


def costs(stage: Stage, loads: Sequence[Load]) -> list[Row]:
    found = measured(stage, loads)
    pairs = zip(loads, zip(found[::2], found[1::2]))
    keys = ("messages_per_s", "bytes_per_s")
    return [Row(load, *(tuple(of[key] for of in both) for key in keys)) for load, both in pairs]


def growth(rows: Sequence[Row], place: int) -> float:
    """The payload of the last row over that of the first."""
    return rows[-1].payload[place] / max(rows[0].payload[place], 1.0)


def show(evidence: Evidence, title: str, x: str, rows: Sequence[Row], field: str) -> None:
    """A plot and a table of costs by a field of the load."""
    y = "B/s of payload that each machine sends"
    plot = evidence.plot(title, x, y, log="xy")
    for place, name in enumerate(SHARINGS):
        points = [(getattr(row.load, field), row.payload[place]) for row in rows]
        # An agent alone sends nothing, which a logarithmic axis cannot show.
        plot.line(name, [(x, y) for x, y in points if y > 0])
    heads = ["machines", "flows", "changes/s"]
    for name in ("notices", "claims"):
        heads += [f"{name}: messages/s{{:.0f}}", "payload B/s{:.0f}", "on the wire B/s{:.0f}"]
    table = evidence.table(title, heads)
    for row in rows:
        cells = [(row.messages[at], row.payload[at], row.wire(at)) for at in range(len(SHARINGS))]
        table.row(*row.load, *cells[0], *cells[1])
