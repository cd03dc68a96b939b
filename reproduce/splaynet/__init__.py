"""SplayNet: distributed user-space topology emulation."""

from netarium_papers import Paper

PAPER = Paper(
    "splaynet",
    "SplayNet: Distributed User-Space Topology Emulation",
    "V. Schiavoni, E. Rivière and P. Felber, Middleware 2013, LNCS 8275, and the chapter on it in "
    "V. Schiavoni's thesis",
    (
        "fig_3_4",
        "fig_3_5",
        "fig_3_6b",
        "fig_3_6c",
        "fig_3_7",
        "fig_3_8",
        "chord",
        "multicast",
        "coding",
        "fig_3_4_3",
        "fig_3_4_4",
    ),
)
# Payload of a full segment with timestamps, over its bytes on the wire.
PAYLOAD = 1448 / 1538
