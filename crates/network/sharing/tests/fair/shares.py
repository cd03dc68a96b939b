"""SimGrid's shares: a system of links and flows on standard input, the rates on standard output.

Input: the number of links and of flows; the links' capacities; for each flow its weight, its cap (0:
none), the number of its links and the links. Every flow has a private link in addition, whose
latency gives it its weight (the model CM02 shares in inverse proportion to latency) and whose
capacity is its cap.
"""

import os
import sys
from fractions import Fraction

import simgrid
from simgrid import Actor, Comm, Engine, LinkInRoute, this_actor

# No corrections for headers, nothing for acknowledgements, no window, and exact.
OPTIONS = {
    "network/model": "CM02",
    "network/bandwidth-factor": "1",
    "network/latency-factor": "1",
    "network/weight-S": "0",
    "network/crosstraffic": "0",
    "network/TCP-gamma": "0",
    "maxmin/precision": "1e-10",
}
# Seconds: all flows are under way before the first reading, and none has ended at the second.
FIRST, SECOND = 2.0, 10.0


def words():
    for line in sys.stdin:
        yield from line.split()


def main():
    # SimGrid says what it does on standard output.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    engine = Engine(["shares", "--log=root.thresh:error"])
    for name, value in OPTIONS.items():
        Engine.set_config(f"{name}:{value}")
    given = words()
    link_count, flow_count = int(next(given)), int(next(given))
    zone = simgrid.NetZone.create_full_zone("network")
    capacities = [float(next(given)) for _ in range(link_count)]
    links = [
        zone.create_link(f"l{n}", capacity).set_latency(0.0).seal()
        for n, capacity in enumerate(capacities)
    ]
    count = 2
    while count * (count - 1) < flow_count:
        count += 1
    hosts = [zone.create_host(f"h{n}", 1e9) for n in range(count)]
    pairs = ((a, b) for a in hosts for b in hosts if a is not b)
    flows = []
    for number in range(flow_count):
        weight, cap, hops = float(next(given)), float(next(given)), int(next(given))
        path = [int(next(given)) for _ in range(hops)]
        own = zone.create_link(f"f{number}", cap or 1e30).set_latency(1.0 / weight).seal()
        source, target = next(pairs)
        route = [LinkInRoute(link) for link in [own, *(links[link] for link in path)]]
        zone.add_route(source.netpoint, target.netpoint, None, None, route, False)
        size = int(max(capacities[link] for link in path) * 2 * SECOND) + 1
        flows.append((source, target, size))
    zone.seal()

    def measure():
        transfers = []
        for source, target, size in flows:
            transfers.append(Comm.sendto_async(source, target, size))
        this_actor.sleep_until(FIRST)
        before = [transfer.remaining for transfer in transfers]
        this_actor.sleep_until(SECOND)
        for had, transfer in zip(before, transfers):
            print(repr((had - transfer.remaining) / (SECOND - FIRST)), file=out)
        out.flush()
        os._exit(0)

    Actor.create("measure", hosts[0], measure)
    engine.run()


main()
