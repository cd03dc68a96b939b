"""Weighted max-min fair shares of links, with the weight and the cap of a TCP flow."""

from __future__ import annotations

import heapq
from typing import NamedTuple, Optional, Sequence

MIN_ROUND_TRIP_S = 1e-6
# Rate in bit/s of a flow that neither a link nor its cap limits.
UNLIMITED = 1e18


class Demand(NamedTuple):
    """A flow: the links of its path by number, its weight, and its maximum rate in bit/s."""

    path: Sequence[int]
    weight: float
    cap: float = UNLIMITED


def tcp(path: Sequence[int], round_trip_s: float, window: Optional[int] = None) -> Demand:
    """A TCP flow: its share is inversely proportional to its RTT, its window is in bytes."""
    weight = 1.0 / max(round_trip_s, MIN_ROUND_TRIP_S)
    return Demand(path, weight, window * 8 * weight if window else UNLIMITED)


def max_min(capacities: Sequence[float], flows: Sequence[Demand]) -> list[float]:
    """Rates of flows in bit/s by progressive filling.

    All levels (rate over weight) rise together; a full link freezes the flows that cross it. The
    cap of a flow is a link of its own.
    """
    limits = [*capacities, *(min(flow.cap, UNLIMITED) for flow in flows)]
    paths = [(*flow.path, len(capacities) + number) for number, flow in enumerate(flows)]
    members: list[list[int]] = [[] for _ in limits]
    for number, path in enumerate(paths):
        for link in path:
            members[link].append(number)
    rates: list[Optional[float]] = [None] * len(flows)

    def level(link: int) -> Optional[float]:
        """The level at which a link is full; None if all its flows are frozen."""
        used, weight = 0.0, 0.0
        for number in members[link]:
            rate = rates[number]
            used += rate or 0.0
            weight += flows[number].weight if rate is None else 0.0
        return max(limits[link] - used, 0.0) / weight if weight else None

    heap = [(at, link) for link in range(len(limits)) if (at := level(link)) is not None]
    heapq.heapify(heap)
    while heap:
        before, link = heapq.heappop(heap)
        now = level(link)
        # Levels of links only rise when flows are frozen.
        if now is not None and now > before:
            heapq.heappush(heap, (now, link))
        elif now is not None:
            for number in members[link]:
                if rates[number] is None:
                    rates[number] = flows[number].weight * now
    return [rate or 0.0 for rate in rates]
