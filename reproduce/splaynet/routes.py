"""Shortest paths over the links of a run."""

from __future__ import annotations

import functools
import heapq
from typing import Any, NamedTuple


class Path(NamedTuple):
    """The directions of links that a path crosses (2 × link, or 2 × link + 1 for the second)."""

    links: tuple[int, ...]
    delay_ns: int


class Network:
    """The topology of `run.json`: paths with the lowest delay, and of these with fewest hops."""

    def __init__(self, topology: dict[str, Any]) -> None:
        self._hosts = {node["name"] for node in topology["nodes"] if node["role"] == "host"}
        self._links: dict[str, list[tuple[str, int, int]]] = {}
        for number, link in enumerate(topology["links"]):
            for side, (start, end) in enumerate((link["ends"], reversed(link["ends"]))):
                neighbour = (end, 2 * number + side, link["delay_ns"][side])
                self._links.setdefault(start, []).append(neighbour)

    @functools.lru_cache(maxsize=None)
    def paths(self, start: str, end: str) -> tuple[Path, ...]:
        """All shortest paths between two nodes."""
        best: dict[str, tuple[int, int]] = {}
        found = []
        queue: list[tuple[int, int, str, tuple[int, ...]]] = [(0, 0, start, ())]
        while queue:
            delay, hops, node, links = heapq.heappop(queue)
            if best.setdefault(node, (delay, hops)) < (delay, hops):
                continue
            if node == end:
                found.append(Path(links, delay))
            elif not found and (node == start or node not in self._hosts):
                for other, link, more in self._links.get(node, []):
                    heapq.heappush(queue, (delay + more, hops + 1, other, (*links, link)))
        return tuple(found)
