"""Topologies: nodes and links as data, from which `Mininet` builds a network."""

from typing import Any

from .util import Port, irange, natural

Info = dict[str, Any]


class Topo:
    """A topology. Subclasses add their nodes and links in `build`."""

    def __init__(self, *args: Any, **params: Any) -> None:
        self.hopts: Info = params.pop("hopts", {})
        self.sopts: Info = params.pop("sopts", {})
        self.lopts: Info = params.pop("lopts", {})
        self._nodes: dict[str, Info] = {}
        self._links: list[tuple[Any, Info]] = []
        self.ports: dict[str, dict[int, tuple[str, int]]] = {}
        self.build(*args, **params)

    def build(self, *args: Any, **params: Any) -> None:
        """Adds nodes and links; called with the arguments of the class."""

    def addNode(self, name: str, **opts: Any) -> str:
        self._nodes[name] = opts
        return name

    def addHost(self, name: str, **opts: Any) -> str:
        return self.addNode(name, **(opts or self.hopts))

    def addSwitch(self, name: str, **opts: Any) -> str:
        return self.addNode(name, isSwitch=True, **(opts or self.sopts))

    def addLink(
        self,
        node1: str,
        node2: str,
        port1: Port = None,
        port2: Port = None,
        key: Any = None,
        **opts: Any,
    ) -> Any:
        """Adds a link; `opts` are those of `Mininet.addLink`. Returns its key, or its number."""
        port1, port2 = self.addPort(node1, node2, port1, port2)
        info = {**(opts or self.lopts), "node1": node1, "node2": node2}
        info.update(port1=port1, port2=port2)
        self._links.append((len(self._links) if key is None else key, info))
        return self._links[-1][0]

    def addPort(
        self, src: str, dst: str, sport: Port = None, dport: Port = None
    ) -> tuple[int, int]:
        """The port numbers of a new link; those of switches start at 1."""
        left, right = self.ports.setdefault(src, {}), self.ports.setdefault(dst, {})
        sport = len(left) + self.isSwitch(src) if sport is None else sport
        dport = len(right) + self.isSwitch(dst) if dport is None else dport
        left[sport], right[dport] = (dst, dport), (src, sport)
        return sport, dport

    def nodes(self, sort: bool = True) -> list[str]:
        return sorted(self._nodes, key=natural) if sort else list(self._nodes)

    def isSwitch(self, n: str) -> bool:
        return bool(self._nodes[n].get("isSwitch", False))

    def switches(self, sort: bool = True) -> list[str]:
        return [name for name in self.nodes(sort) if self.isSwitch(name)]

    def hosts(self, sort: bool = True) -> list[str]:
        return [name for name in self.nodes(sort) if not self.isSwitch(name)]

    def links(
        self, sort: bool = False, withKeys: bool = False, withInfo: bool = False
    ) -> list[tuple[Any, ...]]:
        """The links as tuples of two names, and of the key and the options if requested."""
        found = [(info["node1"], info["node2"], key, info) for key, info in self._links]
        if sort:
            found.sort(key=lambda link: list(map(natural, link[:2])))
        places = [0, 1, *([2] if withKeys else []), *([3] if withInfo else [])]
        return [tuple(link[place] for place in places) for link in found]

    def nodeInfo(self, name: str) -> Info:
        return self._nodes[name]


class SingleSwitchTopo(Topo):
    """A switch with `k` hosts."""

    def build(self, k: int = 2, **_opts: Any) -> None:
        switch = self.addSwitch("s1")
        for number in irange(1, k):
            self.addLink(self.addHost(f"h{number}"), switch)


class SingleSwitchReversedTopo(Topo):
    """A switch with `k` hosts, the first of them at its last port."""

    def build(self, k: int = 2, **_opts: Any) -> None:
        switch = self.addSwitch("s1")
        for number in irange(1, k):
            self.addLink(self.addHost(f"h{number}"), switch, port1=0, port2=k - number + 1)


class MinimalTopo(SingleSwitchTopo):
    """A switch with two hosts."""

    def build(self, k: int = 2, **_opts: Any) -> None:
        super().build(k=2)


class LinearTopo(Topo):
    """A chain of `k` switches, each with `n` hosts."""

    def build(self, k: int = 2, n: int = 1, **_opts: Any) -> None:
        last = None
        for i in irange(1, k):
            switch = self.addSwitch(f"s{i}")
            for j in irange(1, n):
                self.addLink(self.addHost(f"h{i}" if n == 1 else f"h{j}s{i}"), switch)
            if last:
                self.addLink(switch, last)
            last = switch
