"""Links and their ends. Each end shapes what it sends, as in Mininet."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from .util import Port, Unsupported, nothing, without_mac

if TYPE_CHECKING:
    from .node import Node

TIME = re.compile(r"\s*([0-9.]+)\s*(ns|us|ms|s|usecs?|msecs?|secs?)\s*")
# The transmit queue of Mininet's interfaces.
QUEUE = "1000 packets"
UNSHAPED = {"rate": "unlimited", "delay": "0 s", "jitter": "0 s", "loss": "0 %", "queue": QUEUE}


def time_text(name: str, value: Any) -> str:
    """The lab's text of a time such as `5ms`; an error names the argument."""
    text = str(value)
    found = TIME.fullmatch("0s" if text == "0" else text)
    if not found:
        raise ValueError(f'{name}={value!r}: write a text with a unit, for example {name}="5ms"')
    return f"{found[1]} {re.sub('ecs?$', '', found[2])}"


def shape(
    bw: float | None = None,
    delay: str | None = None,
    jitter: str | None = None,
    loss: float | None = None,
    max_queue_size: int | None = None,
    use_tbf: bool = False,
    latency_ms: float | None = None,
    enable_ecn: bool = False,
    enable_red: bool = False,
    **_others: Any,
) -> dict[str, Any]:
    """The lab's keys for parameters of a link.

    Arguments:
        bw: Mbit/s, with 14 B of header per packet.
        delay, jitter: Texts such as `5ms`; the jitter is uniform in ±jitter, and packets overtake.
        loss: Percent.
        max_queue_size: Packets.
        use_tbf, latency_ms: Limit of the queue as a time at rate `bw`.
        enable_ecn, enable_red: RED, with Mininet's thresholds.
    """
    keys: dict[str, Any] = {}
    if bw is not None:
        keys.update(rate=f"{bw} Mbit/s", queue=QUEUE)
        if use_tbf:
            # tbf's limit is a burst of 15,000 B in addition to rate × latency.
            latency = 15.0 * 8 / bw if latency_ms is None else latency_ms
            keys["queue"] = f"{int(bw * latency * 125) + 15_000} B"
        if enable_ecn or enable_red:
            red = {"kind": "red", "limit": "1000000 B", "min": "30000 B", "max": "35000 B"}
            keys["queue"] = {**red, "probability": "100 %", "ecn": enable_ecn}
    if max_queue_size is not None:
        keys["queue"] = f"{max_queue_size} packets"
    if delay is not None:
        keys["delay"] = time_text("delay", delay)
    if jitter is not None:
        spread = time_text("jitter", jitter)
        keys["jitter"] = {"distribution": "uniform", "spread": spread, "keep_order": False}
    if loss:
        keys["loss"] = f"{loss} %"
    return keys


class Intf:
    """An end of a link: an interface of a node. It is of layer 3: `MAC` returns None."""

    def __init__(
        self, name: str, node: Node, port: Port = None, link: Link | None = None, **params: Any
    ) -> None:
        without_mac(name, params)
        self.name, self.node, self.link, self.params = name, node, link, params
        self.ip: str | None = None
        self.prefixLen: int | None = None
        self.shaped = shape(**params)
        if params.get("ip"):
            self.setIP(params["ip"])
        node.addIntf(self, port=port)

    def peer(self) -> Intf | None:
        """The other end of the link."""
        if self.link is None:
            return None
        return self.link.intf2 if self.link.intf1 is self else self.link.intf1

    def setIP(self, ipstr: str, prefixLen: int | None = None) -> None:
        """Sets the address, with a prefix length of 8 by default. Not after the start."""
        ip, _, prefix = ipstr.partition("/")
        length = int(prefix or prefixLen or 8)
        if self.node.lab is not None and (ip, length) != (self.ip, self.prefixLen):
            raise Unsupported(f"setIP({ipstr!r}) of {self}: addresses are fixed after net.start()")
        self.ip, self.prefixLen = ip, length

    def IP(self) -> str | None:
        return self.ip

    updateIP = IP
    MAC = updateMAC = staticmethod(nothing)

    def isUp(self, setUp: bool = False) -> bool:
        """Whether the link is up; `setUp` brings it up."""
        if setUp:
            self.ifconfig("up")
        return self.link is not None and self.link.up

    def ifconfig(self, *args: Any) -> str:
        """`ifconfig` on a host; `up` and `down` of a switch change the state of the link."""
        if self.link is not None and not self.node.hasShell and args in (("up",), ("down",)):
            self.link.set_state(args[0])
            return ""
        return self.node.cmd("ifconfig", self.name, *args)

    def cmd(self, *args: Any, **kwargs: Any) -> str:
        return self.node.cmd(*args, **kwargs)

    def config(self, ip: str | None = None, **params: Any) -> dict[str, Any]:
        """Replaces all properties of what this end sends; see `shape`. Returns the lab's keys."""
        if ip is not None:
            self.setIP(ip)
        self.shaped = shape(**params)
        lab = self.node.lab
        if lab is not None and self.link is not None and self.shaped:
            direction = "up" if self.link.intf1 is self else "down"
            head = f"link.{self.link.name}.{direction}."
            lab.set({head + key: value for key, value in {**UNSHAPED, **self.shaped}.items()})
        return self.shaped

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


class Link:
    """A link between two nodes of a network.

    Parameters of both ends are those of `shape`, and `intf`, their class. Those of one end have its
    number: `intfName1`, `cls1`, and `params1`, a dictionary.
    """

    def __init__(
        self, node1: Node, node2: Node, port1: Port = None, port2: Port = None, **params: Any
    ) -> None:
        self.name = f"{node1}-{node2}"
        without_mac(self.name, params)
        self.up = True
        cls = params.pop("intf", Intf)
        own = [[params.pop(key + n, None) for key in ("intfName", "cls", "params")] for n in "12"]

        def end(node: Node, port: Port, name: str | None, own_cls: Any, keys: Any) -> Intf:
            port = node.newPort() if port is None else port
            keys = {**params, **(keys or {}), "node": node, "port": port, "link": self}
            made: Intf = (own_cls or cls)(name=name or f"{node}-eth{port}", **keys)
            return made

        self.intf1, self.intf2 = end(node1, port1, *own[0]), end(node2, port2, *own[1])

    def set_state(self, state: str) -> None:
        """Brings the link `up` or `down`."""
        lab = self.intf1.node.lab
        if lab is not None:
            lab.link(self.name).set(state="up" if state == "up" else "down")
        self.up = state == "up"

    def status(self) -> str:
        return "(OK OK)" if self.up else "(DOWN DOWN)"

    def __str__(self) -> str:
        return f"{self.intf1}<->{self.intf2}"


# All interfaces have `bw`, `delay`, `jitter`, `loss`.
TCIntf = OVSIntf = Intf
TCLink = Link
