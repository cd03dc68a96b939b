"""A passive collector of BGP messages: the cost of cloning, completeness, and CPU time."""

from typing import NamedTuple, Optional

from netarium_papers import Paper, PaperError, Run

PAPER = Paper(
    "collector",
    "Beyond the Best: Real-Time Non-Invasive Collection of BGP Messages",
    "S. Vissicchio, L. Cittadini, M. Pizzonia, L. Vergantini, V. Mezzapesa and M. L. Papagni, "
    "INM/WREN 2010, and the chapter on it in S. Vissicchio's thesis",
    ("fig_7_8", "fig_7_9", "archive", "cost"),
)
LIMIT = 62  # Capacity of the paper's router, in % of the lines' packet rate
PAPER_LIMIT = 1_845_000  # The same in packets/s
PAPER_BGP = 37_157 / 120  # Segments/s of the paper's five full tables
SHARE_OF_BGP = PAPER_BGP / PAPER_LIMIT * 100
BASELINE, UPDATES, CLONED = MODES = ("baseline", "BGP-updates-no-mirror", "BGP-updates-mirror")
CLOCKS = {"wall": "wall clock, real router", "virtual": "virtual clock, model"}


class Traffic(NamedTuple):
    """Regular datagrams of both directions, packets of BGP, and segments at the collector."""

    sent: int
    lost: int
    bgp: int
    cloned: Optional[int]

    @property
    def loss(self) -> float:
        """Loss of the regular traffic in %."""
        return self.lost / max(self.sent, 1) * 100


def traffic(run: Run, bgp: int, cloned: Optional[int]) -> Traffic:
    flows = [run.flow(name) for name in ("east", "west")]
    sent, lost = (sum(of[f"{key}_datagrams"] or 0 for of in flows) for key in ("sent", "lost"))
    if not sent:
        raise PaperError(f"run {run.folder} has no regular traffic")
    return Traffic(sent, lost, bgp, cloned)
