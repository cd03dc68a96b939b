# %% [markdown]
"""# SplayNet, figure 3.8
Throughput of small messages, each in a packet of its own, over a link of 10 Mbit/s: the headers of
a packet limit it.

TCP_NODELAY alone does not keep messages separate: writes that wait for the congestion window are
joined into full segments. The built-in flow marks the end of each message (MSG_EOR), which the
kernel respects. A sender without that reaches several Mbit/s at 1 B and hides the cost of packets,
which may be why ModelNet's line in the paper is too high.
"""

# %%
from typing import Any

from netarium_papers import Evidence, Job, Run, Stage, figure, moments

# Lengths of messages in bytes; the paper's end at 32.
LENGTHS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
SHORT_LENGTHS = (1, 8, 32)
PAPER_MAX_LENGTH = 32
LINK_MBIT = 10.0
# Headers of a packet: Ethernet 38, IPv4 20, TCP 20 and 12 of timestamps, which the paper omits.
HEADERS, PAPER_HEADERS = 38 + 20 + 20 + 12, 38 + 20 + 20
SETTLED_S = 1.0  # Slow start is over.
TOLERANCE = 0.02


def formula(length: int, headers: int = HEADERS) -> float:
    """Throughput in Mbit/s of messages with headers."""
    return LINK_MBIT * length / (length + headers)


class Measured:
    """The throughput (Mbit/s) and the packets of a run."""

    def __init__(self, length: int, run: Run) -> None:
        self.length, self.run = length, run
        rates = run.flow_rate("messages", 1.0)
        self.rate = moments(rate / 1e6 for at, rate in rates if at > SETTLED_S)
        link = run.link("middle", "up")
        self.packets = link["sent_packets"]
        self.packet_bytes = link["sent_bytes"] / max(self.packets, 1)
        # Relative differences from the formula.
        self.off = self.rate.mean / formula(length) - 1
        self.packet_off = self.packet_bytes / (length + HEADERS) - 1

    def cells(self) -> list[Any]:
        seconds = self.run.elapsed_s
        used = self.packet_bytes * self.packets * 8 / (seconds * LINK_MBIT * 1e6)
        rates = (formula(self.length), self.rate.mean, self.off * 100, *self.rate[3:])
        resent = self.run.flow("messages")["retransmits"] or 0
        packets = (self.packet_bytes, self.packets / seconds, used * 100, resent)
        return [self.run.label, self.length, *rates, *packets]


@figure("3.8", "throughput of small messages over 10 Mbit/s", "3 min", "wall virtual")
def messages(stage: Stage) -> None:
    lengths = stage.size(LENGTHS, SHORT_LENGTHS)
    jobs = [
        Job("splaynet/messages.toml", f"messages-{length}", clock, model)
        .set("flow.messages.message", f"{length} B")
        .set("lab.duration", stage.size("6 s", "3 s"))
        for clock, model in stage.settings()
        for length in lengths
    ]
    found = [
        Measured(length, run)
        for run, length in zip(stage.run(jobs), lengths * len(stage.settings()))
    ]
    x, y = "length of a message in bytes", "throughput at the server in Mbit/s"
    plot = stage.plot("Throughput of messages", x, y, log="x", ylim=(0, None))
    heads = "run,message{} B,formula{:.4f},throughput{:.4f},off by{:+.2f} %,least s{:.4f},"
    heads += "most s{:.4f},wire B a packet{:.2f},packets/s{:.0f},link used{:.1f} %,resent"
    table = stage.table("Payload in Mbit/s, without the first second", heads.split(","))
    for setting in stage.settings():
        of = [one for one in found if (one.run.clock, one.run.model) == setting]
        for one in of:
            table.row(*one.cells())
        claims(stage, of)
        plot.line(of[0].run.label, [(one.length, one.rate.mean) for one in of])
    for name, headers in (("90)", HEADERS), ("78), the paper's", PAPER_HEADERS)):
        points = [(length, formula(length, headers)) for length in lengths]
        plot.line(f"10 Mbit/s × m / (m + {name}", points, style="reference")
    stage.note(
        "Linux and the simulated TCP send timestamps, so that a message of m bytes takes m + "
        f"{HEADERS} bytes of wire, not m + {PAPER_HEADERS}: 2.62 instead of 2.91 Mbit/s at 32 B."
    )


def claims(evidence: Evidence, of: list[Measured]) -> None:
    """The claims on the runs of one clock and model, by length."""
    name = of[0].run.label
    worst = max(reversed(of), key=lambda one: abs(one.off))
    evidence.claim(
        f"against 10 Mbit/s × m / (m + {HEADERS}) ({name})",
        "on the line of the overhead model",
        f"at most {abs(worst.off) * 100:.2f} % off, at {worst.length} B",
        abs(worst.off) <= TOLERANCE,
    )
    means = [one.rate.mean for one in of]
    last = next(one.rate.mean for one in of if one.length == PAPER_MAX_LENGTH)
    evidence.claim(
        f"from 1 B to {PAPER_MAX_LENGTH} B ({name})",
        "from under 0.5 to about 3 Mbit/s",
        f"{means[0]:.3f} to {last:.2f} Mbit/s",
        all(a < b for a, b in zip(means, means[1:])) and means[0] < 0.5 and 2.4 <= last <= 3.2,
    )
    worst = max(reversed(of), key=lambda one: abs(one.packet_off))
    off = abs(worst.packet_off)
    evidence.claim(
        f"each message is a packet of m + {HEADERS} B of wire ({name})",
        "no buffering",
        f"mean packet at most {off * 100:.2f} % off: "
        f"{worst.packet_bytes:.2f} B at {worst.length} B",
        off <= 0.005,
    )


# %%
if __name__ == "__main__":
    messages.main()
