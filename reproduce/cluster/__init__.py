"""The cost of agreeing on shares for the agents of one lab, on the virtual clock.

Simulations have more agents than most clusters. All use the network with 150 hosts of SplayNet's
section 3.4.4.
"""

from netarium_papers import Paper

PAPER = Paper(
    "cluster",
    "Agreeing on shares over many machines",
    "by notices (Schiavoni, Rivière and Felber, SplayNet, Middleware 2013) and by claims (SLBN), "
    "beside what Kollaps tells (EuroSys 2020)",
    ("agents", "flows", "delays"),
)
