"""Networks and traffic that both sides of a simulation row get: the same in every repetition."""

import heapq
import itertools
import random


def permutation(hosts, seed=1):
    """The receiver of each host: every host sends to and receives from exactly one other."""
    rng, order = random.Random(seed), list(range(hosts))
    while any(a == b for a, b in enumerate(order)):
        rng.shuffle(order)
    return order


class Mesh:
    """Routers that prefer to join well-connected ones (Barabasi and Albert, Science 1999), and
    flows between them that start as a Poisson process, with exponential sizes. Each link has a
    different metric, so that the shortest paths are unique and both sides use the same."""

    RATE = 1_000_000_000
    DELAY = 0.001

    def __init__(self, routers, flows, per_second, mean_size, seed=1):
        rng = random.Random(seed)
        self.routers = routers
        self.links = []
        ends = [0, 1]
        for new in range(1, routers):
            for old in sorted({rng.choice(ends) for _ in range(2 if new > 1 else 1)} - {new}):
                self.links.append((old, new))
                ends += [old, new]
        self.metrics = [rng.randint(900_000, 1_000_000) for _ in self.links]
        self.flows, now = [], 0
        for _ in range(flows):
            # Whole microseconds: both sides read the same number.
            now += max(round(rng.expovariate(per_second) * 1e6), 1)
            pair = rng.sample(range(routers), 2)
            self.flows.append((now, *pair, round(rng.expovariate(1 / mean_size)) + 1))

    def lab(self):
        """The text of a lab."""
        head = '[lab]\nname = "fluid"\nmodel = "fluid"\nrouting = "metric"\nduration = "1000 s"\n'
        # The peer records nothing; sampling ten times a second would be most of the work here.
        lines = [head + 'interval = "10 s"']
        lines += [f'[node.n{n}]\nkind = "router"' for n in range(self.routers)]
        rate, delay = f"{self.RATE} bit/s", f"{round(self.DELAY * 1e6)} us"
        for (a, b), metric in zip(self.links, self.metrics):
            lines.append(
                f'[[link]]\nends = ["n{a}", "n{b}"]\nrate = "{rate}"\ndelay = "{delay}"\n'
                f"metric = {metric}"
            )
        for number, (start, a, b, size) in enumerate(self.flows):
            lines.append(
                f'[[flow]]\nname = "f{number}"\nfrom = "n{a}"\nto = "n{b}"\n'
                f'start = "{start} us"\nsize = "{size} B"'
            )
        return "\n".join(lines) + "\n"

    def simgrid(self, payload_share):
        """The same for fluid.cc; its links carry payload only. Link 2n is link n from its first
        end to its second, 2n + 1 the other direction."""
        lines = [f"{self.routers} {2 * len(self.links)} {len(self.flows)}"]
        lines += [f"{self.RATE / 8 * payload_share} {self.DELAY}"] * (2 * len(self.links))
        sources = {}
        for start, a, b, size in self.flows:
            if a not in sources:
                sources[a] = self._before(a)
            path = list(self._path(sources[a], a, b))
            lines.append(f"{start / 1e6} {a} {b} {size} {len(path)} {' '.join(map(str, path))}")
        return "\n".join(lines) + "\n"

    def _before(self, source):
        """Of each router, the previous one on the shortest path from the source, and the link."""
        if not hasattr(self, "_near"):
            self._near = [[] for _ in range(self.routers)]
            for number, ((a, b), metric) in enumerate(zip(self.links, self.metrics)):
                self._near[a].append((b, 2 * number, metric))
                self._near[b].append((a, 2 * number + 1, metric))
        best, before = {source: 0}, {}
        order, heap = itertools.count(), [(0, -1, source)]
        while heap:
            cost, _, node = heapq.heappop(heap)
            if cost > best[node]:
                continue
            for other, link, metric in self._near[node]:
                found = cost + metric
                if found < best.get(other, found + 1):
                    best[other], before[other] = found, (node, link)
                    heapq.heappush(heap, (found, next(order), other))
        return before

    @staticmethod
    def _path(before, source, target):
        """Links from the source to the target."""
        links = []
        while target != source:
            target, link = before[target]
            links.append(link)
        return reversed(links)
