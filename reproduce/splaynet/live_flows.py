"""Shares of flows in a run, compared with the shares of the flows that are live by the lab."""

from __future__ import annotations

import bisect
import functools
import itertools
import math
from typing import Any, NamedTuple, Optional, Sequence

import netarium as nt
from netarium_papers import PaperError, Points, Run
from netarium_papers.splaynet import PAYLOAD
from netarium_papers.splaynet.routes import Network, Path
from netarium_papers.splaynet.shares import UNLIMITED, max_min, tcp

MAX_DRAIN_NS = 5 * 10**9  # Maximum time in which a queue drains.
REPORT_NS = 50 * 10**6  # Interval in which senders of datagrams report their demand.
MAX_PACKET_BYTES = 1600
DATAGRAM_HEADERS = 28 + 38  # IPv4 and UDP; Ethernet.
UNITS = {"ns": 1, "ms": 10**6, "s": 10**9, "B": 1, "kbit/s": 1000, "Mbit/s": 10**6}
Ends = tuple[str, str, str]


def quantity(text: str) -> int:
    """A time in ns, a rate in bit/s or a length in bytes of a resolved lab."""
    number, unit = text.split()
    return round(float(number) * UNITS[unit])


class Flow(NamedTuple):
    """A flow of the lab: nodes, `stream` or `datagram`, life, and wire rate of datagrams."""

    name: str
    ends: Ends
    start_ns: int
    end_ns: int
    rate: Optional[int]


class Sample(NamedTuple):
    """A row of the table `shares`: a flow at the end of an interval; rates are of the wire."""

    at: int
    interval: int
    start: str
    end: str
    flow: int
    kind: str
    share: Optional[int]
    demand: Optional[int]
    sent: int

    @property
    def ends(self) -> Ends:
        return self.start, self.end, self.kind


class Moment(NamedTuple):
    """The shares at the end of an interval, compared with those of the live flows.

    `missing` live flows have no share. `draining` flows have ended, but their last packets are
    queued; `unexpected` ones are neither. `errors` are relative errors of shares, `demands` are
    measured rates of datagrams over the true ones.
    """

    at_s: float
    live: int
    missing: int
    draining: int
    unexpected: int
    errors: list[float]
    demands: list[float]


class LiveFlows:
    """The flows of a lab and its network."""

    def __init__(self, run: Run) -> None:
        topology = run.record["topology"]
        rates = (rate for link in topology["links"] for rate in link["rate_bit_per_s"])
        self._capacities = [math.inf if rate is None else float(rate) for rate in rates]
        self._network = Network(topology)
        lab = nt.Lab.from_toml(run.folder / "lab.toml").data
        self._end_ns = quantity(lab["lab"]["duration"])
        self.flows = [self._flow(found) for found in lab["flow"]]

    def _flow(self, found: dict[str, Any]) -> Flow:
        start, end, rate = quantity(found["start"]), self._end_ns, None
        if "duration" in found:
            end = min(start + quantity(found["duration"]), end)
        if found["transport"] == "udp":
            packet = quantity(found["packet"])
            rate = quantity(found["rate"]) * (packet + DATAGRAM_HEADERS) // packet
        kind = "stream" if rate is None else "datagram"
        return Flow(found["name"], (found["from"], found["to"], kind), start, end, rate)

    def live(self, at_ns: int) -> list[Flow]:
        return [flow for flow in self.flows if flow.start_ns <= at_ns < flow.end_ns]

    def changes(self) -> list[int]:
        """Times in ns of starts and ends; the end of datagrams is noticed a report later."""
        ends = {flow.end_ns + (REPORT_NS if flow.rate else 0) for flow in self.flows}
        return sorted(ends | {flow.start_ns for flow in self.flows})

    def _path(self, start: str, end: str) -> Path:
        found = self._network.paths(start, end)
        if len(found) != 1:
            raise PaperError(f"{start} and {end} have {len(found)} shortest paths; expected 1")
        return found[0]

    @functools.lru_cache(maxsize=None)
    def _shares(self, demands: tuple[tuple[Ends, Optional[int]], ...]) -> list[float]:
        """Fair shares in bit/s of flows with maximum rates."""
        flows = []
        for (start, end, _), rate in demands:
            path = self._path(start, end)
            flow = tcp(path.links, (path.delay_ns + self._path(end, start).delay_ns) / 1e9)
            flows.append(flow if rate is None else flow._replace(cap=float(rate)))
        return max_min(self._capacities, flows)

    def moments(self, samples: Sequence[Sample], settled_ns: int) -> list[Moment]:
        """Moments with live flows at which the last change is at least `settled_ns` ago.

        A new rate of datagrams is a change too: other machines are notified of it later.
        """
        changes, found, changed = self.changes(), [], 0
        demands: dict[Any, int] = {}
        for at, rows in itertools.groupby(samples, lambda row: row.at):
            group = list(rows)
            before = demands
            demands = {
                (*row.ends, row.flow): row.demand
                for row in group
                if row.kind == "datagram" and row.demand is not None
            }
            if differ(before, demands):
                changed = at
            past = bisect.bisect_right(changes, at)
            if past and at - max(changes[past - 1], changed) >= settled_ns and self.live(at):
                found.append(self._moment(at, group))
        return found

    def _moment(self, at: int, group: list[Sample]) -> Moment:
        rows: dict[Ends, list[Sample]] = {}
        for row in group:
            rows.setdefault(row.ends, []).append(row)
        live = self.live(at)
        own = [rows[flow.ends].pop() if rows.get(flow.ends) else None for flow in live]
        rest = [row for left in rows.values() for row in left]
        drain = [row for row in rest if may_send(row) and self._has_ended(row)]
        wanted = [
            (flow.ends, row.demand if row else flow.rate) for flow, row in zip(live, own)
        ] + [(row.ends, row.demand) for row in drain]
        pairs = zip([*own, *drain], self._shares(tuple(wanted)))
        return Moment(
            at / 1e9,
            len(live),
            own.count(None),
            len(drain),
            len(rest) - len(drain),
            [error(row.share, fair) for row, fair in pairs if row],
            [
                row.demand / flow.rate
                for flow, row in zip(live, own)
                if flow.rate and row and row.demand is not None
            ],
        )

    def _has_ended(self, row: Sample) -> bool:
        return any(
            flow.ends[:2] == row.ends[:2] and 0 <= row.at - flow.end_ns <= MAX_DRAIN_NS
            for flow in self.flows
        )

    def achieved(self, samples: Sequence[Sample], run: Run) -> list[tuple[float, float]]:
        """Goodput of TCP flows, and payload that their mean share allows, in bit/s.

        Of whole seconds that begin at least 1 s after the flow.
        """
        shares: dict[Ends, Points] = {}
        for row in samples:
            if row.share is not None:
                shares.setdefault(row.ends, []).append((row.at / 1e9, row.share))
        found = []
        for flow in self.flows:
            if flow.rate or flow.ends not in shares:
                continue
            for middle, goodput in run.flow_rate(flow.name, 1.0):
                first, last = middle - 0.5, middle + 0.5
                own = [share for at, share in shares[flow.ends] if first < at <= last]
                if own and first >= flow.start_ns / 1e9 + 1 and last <= flow.end_ns / 1e9:
                    found.append((goodput, sum(own) / len(own) * PAYLOAD))
        return found


def samples(run: Run) -> list[Sample]:
    return [Sample(*row) for row in run.frame("shares").rows()]


def error(share: Optional[int], fair: float) -> float:
    """The relative error of a share in bit/s; None is unlimited."""
    if share is None:
        return math.inf if fair < UNLIMITED else 0.0
    if fair == 0.0:
        return math.inf if share else 0.0
    return abs(share / fair - 1)


def may_send(row: Sample) -> bool:
    """Whether a flow sent packets, or its share is below one packet per interval."""
    is_slow = row.share is not None and row.share / 8 * row.interval / 1e9 < MAX_PACKET_BYTES
    return row.sent > 0 or (row.kind == "stream" and is_slow)


def differ(before: dict[Any, int], now: dict[Any, int]) -> bool:
    """Whether a demand has changed by more than 2 %, of which others are notified."""
    return before.keys() != now.keys() or any(
        abs(before[key] - rate) > 0.02 * max(before[key], rate) for key, rate in now.items()
    )
