"""MCTCP: one stream over several TCP connections.

Each experiment is one lab with several carriers of the stream: MCTCP, the kernel's MPTCP (wall
clock only), or one TCP connection on one of the paths. `grid` runs them, `stream` measures a run.
"""

from netarium_papers import Paper

PAPER = Paper(
    "mctcp",
    "Performance Evaluation of Multipath TCP Linux Implementations",
    "A. Singh, C. Görg, A. Timm-Giel, M. Scharf and T.-R. Banniza, EuroView 2011",
    tuple(
        "schedule loss_and_delay sums unequal outages random_transfers small_requests subflows "
        "poor_paths schedulers topologies applications".split()
    ),
)
CLOCKS = "wall virtual"
WINDOW = {"flow.bulk.window": "262144 B"}  # The socket buffers of the paper.
CARRIERS = {"mctcp": "MCTCP", "mptcp": "kernel MPTCP"}
TRANSPORTS = {**CARRIERS, "tcp": "TCP"}


def suits(transport: str, clock: str) -> bool:
    """The kernel's MPTCP runs on the wall clock only."""
    return clock == "wall" or transport != "mptcp"
