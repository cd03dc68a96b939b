"""The model of the router on the virtual clock."""

from netarium_papers import Job, Run
from netarium_papers.collector import BASELINE, CLONED, PAPER_BGP, Traffic, traffic

LINE_MBIT = 100
PAYLOAD = 18 / 84  # Payload of the model's packets, over their bytes on the wire
PACKET_BITS = 18 * 8
SCALE = 0.1  # Packet rates of the model over those of the paper


def model(name: str, mode: str, share: float) -> Job:
    """A job of the model with regular traffic at a share of the lines' rate in %."""
    job = Job("collector/model.toml", name, "virtual")
    for flow in ("east", "west"):
        job = job.set(f"flow.{flow}.rate", f"{LINE_MBIT * share / 100 * PAYLOAD * 1e6:.0f} bit/s")
    for flow, is_wanted in (("bgp", mode != BASELINE), ("clones", mode == CLONED)):
        rate = PAPER_BGP * SCALE * PACKET_BITS if is_wanted else 100
        job = job.set(f"flow.{flow}.rate", f"{rate:.0f} bit/s")
        if not is_wanted:
            # A flow cannot be omitted, nor end before the others; this one is a packet every 8 s.
            job = job.set(f"flow.{flow}.packet", "100 B")
    return job


def simulated(run: Run, mode: str) -> Traffic:
    bgp, clones = (run.flow(name)["sent_datagrams"] or 0 for name in ("bgp", "clones"))
    return traffic(run, bgp, clones if mode == CLONED else None)
