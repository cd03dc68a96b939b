"""Further topologies."""

from typing import Any

from .net import Mininet
from .topo import Topo


class TreeTopo(Topo):
    """A tree of switches, with hosts as leaves."""

    def build(self, depth: int = 1, fanout: int = 2, **_opts: Any) -> None:
        self.hostNum = self.switchNum = 1
        self.addTree(depth, fanout)

    def addTree(self, depth: int, fanout: int) -> str:
        """Adds a subtree; returns its root."""
        if depth == 0:
            self.hostNum += 1
            return self.addHost(f"h{self.hostNum - 1}")
        node = self.addSwitch(f"s{self.switchNum}")
        self.switchNum += 1
        for _ in range(fanout):
            self.addLink(node, self.addTree(depth - 1, fanout))
        return node


def TreeNet(depth: int = 1, fanout: int = 2, **kwargs: Any) -> Mininet:
    """A network with a tree."""
    return Mininet(TreeTopo(depth, fanout), **kwargs)
