# %% [markdown]
"""# Collector, correctness of the archive
Five peers announce full tables, withdraw them, and end their sessions. The archive of the collector
is compared with the dump of the router, as in the paper.

Only packets to the router are cloned, after the queue that drops: the collector receives the same
segments as the router, also retransmitted ones, and none of the router's own. Regular traffic of 40
% of the lines' rate in each direction leaves the rest of the 62 % to five sessions that send as
fast as they can; the excess is dropped and retransmitted.

BIRD reads all that its neighbour sent before the end of a session. FRR discards what it has not
processed by then: with full tables on a busy machine its dump lacks UPDATEs that the collector has.

Speakers replay the UPDATEs of a real table of 2015 (577,737 prefixes) bit for bit over TCP of the
kernel. They replace the paper's Quagga processes between it and an ISP.
"""

# %%
from typing import Mapping

from netarium_papers import Evidence, Stage, figure
from netarium_papers.collector import mrt
from netarium_papers.collector.testbed import PEERS, SHORT_PREFIXES, Testbed, announced, installed

# Announced, withdrawn, and announced again over new sessions.
SCRIPT = "2 announce 35 withdraw 45 reset 50 announce 85 drop 90 announce 125 end"
SHORT_SCRIPT = "2 announce 4 withdraw 5 reset 6 announce 8 drop 9 announce 12 end"
SESSIONS = 3  # Of each peer in both
LAB = {"lab.tolerance": "10 s", **{f"link.p{peer}.rate": "20 Mbit/s" for peer in PEERS}}
HEADS = (
    "router|UPDATEs sent|archived|dumped|peers with the same bytes in both|segments|"
    "retransmitted B|missing B|dropped|gaps|sessions: router, collector|up apart{:.3f} s|"
    "regular traffic lost{:.3f} %"
).split("|")
COUNTERS = ("segments", "duplicate_bytes", "missing_bytes", "kernel_drops", "gaps")


@figure(
    "archive",
    "full tables of five peers, archived and dumped by the router itself",
    "5 min",
    "wall",
)
def archived_and_dumped(stage: Stage) -> None:
    script, prefixes = stage.size((SCRIPT, 0), (SHORT_SCRIPT, SHORT_PREFIXES))
    regular, duration = (40, 2, stage.size(120, 10)), stage.size("220 s", "90 s")
    table = stage.table("Archive and dump", HEADS)
    for daemon in installed():
        names = (daemon.name, daemon, script)
        testbed = Testbed(stage, *names, regular, duration, prefixes, settings=LAB)
        run = testbed.run()
        sent, collected = announced(run), testbed.collected()
        compared = mrt.compare(testbed.out / "router.mrt", testbed.out / "archive")
        updates = (sent[0], compared.own_updates, compared.updates)
        same, up = f"{compared.same} of {compared.peers}", f"{compared.up[0]}, {compared.up[1]}"
        counters = (collected[key] for key in COUNTERS)
        apart_and_loss = (compared.apart_s, testbed.traffic(run).loss)
        table.row(daemon.title, *updates, same, *counters, up, *apart_and_loss)
        claims(daemon.title, compared, collected, sent, stage)


def claims(
    router: str,
    compared: mrt.Comparison,
    collected: Mapping[str, int],
    sent: tuple[int, int],
    evidence: Evidence,
) -> None:
    evidence.claim(
        f"UPDATEs in the archive beside the router's own dump ({router})",
        "correctly reconstructed and stored",
        f"{compared.same} of {len(PEERS)} peers the same bytes in the same order, {compared.held} "
        f"with all that was dumped: {compared.updates} UPDATEs, {compared.bytes} B",
        compared.peers == compared.held == len(PEERS) and compared.updates > 0,
    )
    evidence.claim(
        f"UPDATEs in the archive beside what the peers sent ({router})",
        "all BGP messages that routers receive",
        f"{compared.own_updates} of {sent[0]}, {compared.own_bytes} of {sent[1]} B",
        (compared.own_updates, compared.own_bytes) == sent and sent[0] > 0,
    )
    missing = [collected[k] for k in ("kernel_drops", "missing_bytes", "gaps", "bad_checksums")]
    evidence.claim(
        f"cloned segments that did not arrive ({router})",
        "none",
        "{} dropped, {} B missing, {} gaps, {} with wrong checksums".format(*missing),
        not any(missing) and collected["stream_bytes"] > compared.own_bytes,
    )
    up = compared.up
    evidence.claim(
        f"sessions seen to come up, from one side of them ({router})",
        f"state changes are stored (here: {SESSIONS} of each peer)",
        f"{up[1]} of the router's {up[0]}, of {collected['peerings']} peers",
        up[0] == up[1] == SESSIONS * len(PEERS),
    )


# %%
if __name__ == "__main__":
    archived_and_dumped.main()
