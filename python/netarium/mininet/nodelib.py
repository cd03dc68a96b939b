"""Further nodes."""

from typing import Any

from .node import Node, Switch
from .util import Unsupported


LinuxBridge = Switch


class NAT(Node):
    """Not supported: labs reach the machine's network through an uplink."""

    def __init__(self, name: str, **params: Any) -> None:
        raise Unsupported(
            f"NAT {name}: labs do not translate addresses; for access to the machine's network, "
            'use Mininet(lab={"uplink": True})'
        )
