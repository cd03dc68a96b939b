"""The network: nodes and links, the lab that is made of them, tests between hosts."""

import atexit
import ipaddress
import itertools
import json
import os
import re
import select
import shutil
from typing import Any, Callable, Iterable, Iterator, Mapping

from .. import _up
from .._lab import Lab
from .._run import Run
from .link import Intf, Link
from .log import error, info, output
from .node import Controller, DefaultController, Host, Node, OVSKernelSwitch, Switch
from .nodelib import NAT
from .topo import Topo
from .util import Port, Unsupported, fmtBps, nothing, numCores

VERSION = "2.3.0"
PING = re.compile(r"(\d+) packets transmitted, (\d+)(?: packets)? received")
RTT = re.compile(r"rtt min/avg/max/mdev = ([\d.]+)/([\d.]+)/([\d.]+)/([\d.]+) ms")
Pair = tuple[Node, Node]
numbers = itertools.count(1)


class Mininet:
    """A network. `start` brings it up as a lab, `stop` ends it."""

    def __init__(
        self,
        topo: Topo | None = None,
        switch: Callable[..., Switch] = OVSKernelSwitch,
        host: Callable[..., Node] = Host,
        controller: Any = DefaultController,
        link: Callable[..., Link] = Link,
        intf: Callable[..., Intf] = Intf,
        build: bool = True,
        xterms: bool = False,
        cleanup: bool = False,
        ipBase: str = "10.0.0.0/8",
        inNamespace: bool = False,
        autoSetMacs: bool = False,
        autoStaticArp: bool = False,
        autoPinCpus: bool = False,
        listenPort: int | None = None,
        waitConnected: Any = False,
        lab: Mapping[str, Any] | None = None,
    ) -> None:
        """Arguments are Mininet's, and `lab`: arguments of `netarium.Lab`, such as `{"seed": 2}`.

        `cleanup`, `autoSetMacs`, `autoStaticArp`, `listenPort` and `waitConnected` have no effect.
        """
        for name, given in (("xterms", xterms), ("inNamespace", inNamespace)):
            if given:
                raise Unsupported(f"{name}=True: labs have no terminals and no control network")
        if autoSetMacs:
            info("autoSetMacs has no effect: interfaces of labs have no MAC address\n")
        self.topo, self.switch, self.host, self.controller = topo, switch, host, controller
        self.link, self.intf, self.ipBase, self.autoPinCpus = link, intf, ipBase, autoPinCpus
        # The first address is that of ipBase, or the next one if it is the network's.
        base = ipaddress.ip_interface(ipBase)
        self.prefixLen = base.network.prefixlen
        self.nextIP = base.ip + (base.ip == base.network.network_address)
        self.nextCore = 0
        self.hosts: list[Node] = []
        self.switches: list[Switch] = []
        self.controllers: list[Controller] = []
        self.links: list[Link] = []
        self.nameToNode: dict[str, Node] = {}
        self.built = False
        # Names of running labs are unique on a machine.
        name = f"mininet-{os.getpid()}-{next(numbers)}"
        self.settings = {"name": name, "overhead": "14 B", **(lab or {})}
        self.lab: _up.RunningLab | None = None
        """The lab while it is up."""
        self.result: Run | None = None
        """The finished run, with report and verdict, after `stop`."""
        if topo is not None and build:
            self.build()

    # Nodes and links

    def _add(self, node: Any, nodes: list[Any]) -> Any:
        if self.lab is not None:
            raise Unsupported(f"addition of {node} after net.start(): the lab is up")
        if node.name in self.nameToNode:
            raise ValueError(f"the network has a node {node} already")
        nodes.append(node)
        self.nameToNode[node.name] = node
        node.net = self
        return node

    def addHost(self, name: str, cls: Callable[..., Node] | None = None, **params: Any) -> Any:
        """Adds a host. Parameters: `ip`, `defaultRoute`, `privateDirs`, `cpu`, `cores`, `router`.

        A host with `router=True` forwards packets between its interfaces.
        """
        defaults: dict[str, Any] = {"ip": f"{self.nextIP}/{self.prefixLen}"}
        self.nextIP += 1
        if self.autoPinCpus:
            defaults["cores"] = self.nextCore
            self.nextCore = (self.nextCore + 1) % numCores()
        return self._add((cls or self.host)(name, **{**defaults, **params}), self.hosts)

    def addSwitch(self, name: str, cls: Callable[..., Switch] | None = None, **params: Any) -> Any:
        return self._add((cls or self.switch)(name, **params), self.switches)

    def addController(self, name: Any = "c0", controller: Any = None, **params: Any) -> Any:
        """Accepts a controller, which has no effect; controllers that do not exist here raise."""
        if not isinstance(name, Controller):
            make = controller or self.controller
            name = make(name, **params) if make else None
        return name and self._add(name, self.controllers)

    def addNAT(self, name: str = "nat0", *_args: Any, **_params: Any) -> Any:
        """Raises Unsupported."""
        return NAT(name)

    def addLink(
        self,
        node1: Any,
        node2: Any,
        port1: Port = None,
        port2: Port = None,
        cls: Callable[..., Link] | None = None,
        **params: Any,
    ) -> Any:
        """Adds a link of the class `cls`. Parameters: see `netarium.mininet.link.Link`."""
        ends = [self[node] if isinstance(node, str) else node for node in (node1, node2)]
        if self.lab is not None:
            raise Unsupported(f"link {ends[0]}-{ends[1]} after net.start(): the lab is up")
        for node in ends:
            if node.net is not self:
                raise Unsupported(f"link to {node}, which is not a node of the network")
        link = (cls or self.link)(*ends, port1, port2, **{"intf": self.intf, **params})
        same = sum(1 for other in self.links if other.name.startswith(link.name + "."))
        taken = any(other.name == link.name for other in self.links)
        link.name += f".{same + 2}" if taken else ""
        self.links.append(link)
        return link

    def linksBetween(self, node1: Node, node2: Node) -> list[Link]:
        wanted = {node1, node2}
        return [link for link in self.links if {link.intf1.node, link.intf2.node} == wanted]

    def getNodeByName(self, *args: str) -> Any:
        """A node by its name; a list for several names."""
        found = [self[name] for name in args]
        return found[0] if len(found) == 1 else found

    get = getNodeByName

    def __getitem__(self, key: str) -> Any:
        return self.nameToNode[key]

    def __iter__(self) -> Iterator[str]:
        return (node.name for node in (*self.hosts, *self.switches, *self.controllers))

    def __len__(self) -> int:
        return len(self.nameToNode)

    def __contains__(self, item: object) -> bool:
        return item in self.nameToNode

    def keys(self) -> list[str]:
        return list(self)

    def values(self) -> list[Any]:
        return [self[name] for name in self]

    def items(self) -> Iterable[tuple[str, Any]]:
        return zip(self.keys(), self.values())

    # From start to end

    def build(self) -> None:
        """Adds the nodes and links of the topology."""
        if self.topo is not None:
            controllers = self.controller
            for cls in controllers if isinstance(controllers, list) else [controllers]:
                if not self.controllers and cls is not None:
                    self.addController("c0" if not isinstance(cls, Controller) else cls, cls)
            for name in self.topo.hosts() + self.topo.switches():
                params = dict(self.topo.nodeInfo(name))
                (self.addSwitch if params.pop("isSwitch", False) else self.addHost)(name, **params)
            for *_, params in self.topo.links(sort=True, withInfo=True):
                self.addLink(**params)
        self.built = True

    def makeLab(self) -> Lab:
        """The lab of the nodes and links."""
        lab = Lab(**self.settings)
        for host in self.hosts:
            first = host.defaultIntf()
            if first is not None and first.ip is None and host.params.get("ip"):
                first.setIP(host.params["ip"])
            folders = host.params.get("privateDirs")
            custom = not isinstance(host, Host) and len(host.intfs) > 1
            if host.params.get("router", custom):
                lab.router(host.name, private=folders)
                # Without a program, a router accepts no commands.
                lab.program(host.name, ["sleep", "infinity"], service=True)
            else:
                lab.host(host.name, private=folders)
        lab.switches(*(switch.name for switch in self.switches))
        for link in self.links:
            a, b = link.intf1, link.intf2
            given = {i.node.name: f"{i.ip}/{i.prefixLen}" for i in (a, b) if i.ip is not None}
            state = None if link.up else "down"
            keys = {"up": a.shaped, "down": b.shaped, "addresses": given, "state": state}
            own: dict[str, Any] = {key: value for key, value in keys.items() if value}
            lab.link(a.node.name, b.node.name, name=link.name, **own)
        return lab

    def start(self) -> None:
        """Brings the lab up, and calls `config` of the hosts with their parameters."""
        if self.lab is not None:
            return
        if not self.built:
            self.build()
        info(f"*** Starting {len(self.hosts)} hosts and {len(self.switches)} switches\n")
        self.lab = self.makeLab().up()
        atexit.register(self.stop)
        for host in self.hosts:
            host.configDefault()

    def stop(self) -> None:
        """Ends the lab; `result` is then its run."""
        if self.lab is None:
            return
        atexit.unregister(self.stop)
        for host in self.hosts:
            host.terminate()
        try:
            self.result = self.lab.down()
        finally:
            self.lab = None
        for host in self.hosts:
            getattr(host, "remove_group", lambda: None)()
        info(f"*** {self.result.outcome}: {self.result.report}\n")

    def run(self, test: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Starts, calls `test`, stops; returns the value of `test`."""
        self.start()
        try:
            return test(*args, **kwargs)
        finally:
            self.stop()

    def interact(self) -> Any:
        """Starts, reads commands, stops."""
        from .cli import CLI

        return self.run(CLI, self)

    def waitConnected(self, timeout: Any = None, delay: float = 0.5) -> bool:
        """True: switches need no controller."""
        return True

    init = staticArp = staticmethod(nothing)

    def configLinkStatus(self, src: str, dst: str, status: str) -> None:
        """Brings all links between two nodes `up` or `down`."""
        for name in (src, dst):
            if name not in self:
                error(f"{name} is not in the network\n")
                return
        found = self.linksBetween(self[src], self[dst])
        if not found:
            error(f"no link between {src} and {dst}\n")
        for link in found:
            link.set_state(status)

    # Tests

    def monitor(self, hosts: Any = None, timeoutms: int = -1) -> Iterator[tuple[Any, Any]]:
        """Yields node and line while commands of hosts run; `None, None` after `timeoutms`."""
        hosts = self.hosts if hosts is None else hosts
        while any(host.waiting for host in hosts):
            poller = select.poll()
            for host in hosts:
                poller.register(host.stdout.fileno(), select.POLLIN)
            ready = poller.poll(timeoutms)
            if not ready:
                yield None, None
            for fd, _ in ready:
                for line in Node.outToNode[fd].monitor().splitlines(True):
                    yield Node.outToNode[fd], line

    def _pings(self, hosts: Any, timeout: Any) -> Iterator[tuple[Pair, list[Any]]]:
        """Each pair of hosts, with sent, received and four round-trip times in ms."""
        hosts = self.hosts if not hosts else hosts
        output("*** Ping: testing ping reachability\n")
        for node in hosts:
            output(f"{node} -> ")
            for peer in hosts:
                if peer is node:
                    continue
                limit = f"-W {timeout} " if timeout else ""
                text = node.cmd(f"LANG=C ping -c1 {limit}{peer.IP()}")
                counts, times = PING.search(text), RTT.search(text)
                if counts is None:
                    error(f"*** Error: could not parse ping output: {text}\n")
                sent, received = map(int, counts.groups()) if counts else (1, 0)
                output(f"{peer} " if received else "X ")
                rtts = map(float, times.groups()) if times else [0.0] * 4
                yield (node, peer), [sent, received, *rtts]
            output("\n")

    def ping(self, hosts: Any = None, timeout: Any = None) -> float:
        """Pings between all hosts; returns the loss in percent."""
        results = [values for _, values in self._pings(hosts, timeout)]
        sent, received = (sum(values[i] for values in results) for i in (0, 1))
        if not sent:
            output("*** Warning: No packets sent\n")
            return 0
        loss: float = 100.0 * (sent - received) / sent
        output(f"*** Results: {int(loss)}% dropped ({received}/{sent} received)\n")
        return loss

    def pingFull(self, hosts: Any = None, timeout: Any = None) -> list[tuple[Any, Any, Any]]:
        """Pings between all hosts; returns (from, to, (sent, received, min, avg, max, mdev))."""
        found = [(*pair, tuple(values)) for pair, values in self._pings(hosts, timeout)]
        output("*** Results:\n")
        for node, peer, values in found:
            rtt = "/".join(f"{value:.3f}" for value in values[2:])
            output(f" {node}->{peer}: {values[0]}/{values[1]}, rtt min/avg/max/mdev {rtt} ms\n")
        return found

    def pingAll(self, timeout: Any = None) -> float:
        return self.ping(timeout=timeout)

    def pingAllFull(self) -> list[tuple[Any, Any, Any]]:
        return self.pingFull()

    def pingPair(self) -> float:
        return self.ping(self.hosts[:2])

    def pingPairFull(self) -> list[tuple[Any, Any, Any]]:
        return self.pingFull(self.hosts[:2])

    def iperf(
        self,
        hosts: Any = None,
        l4Type: str = "TCP",
        udpBw: str = "10M",
        fmt: str | None = None,
        seconds: float = 5,
        port: int = 5001,
    ) -> list[str]:
        """Measures throughput from the first to the second host with iperf3, else iperf.

        Returns the rates of server and client as texts; with UDP first `udpBw`.
        """
        client, server = hosts or (self.hosts[0], self.hosts[-1])
        output(f"*** Iperf: testing {l4Type} bandwidth between {client} and {server}\n")
        udp = l4Type.upper() == "UDP"
        words = ["-p", str(port), "-t", str(seconds), *(["-u", "-b", udpBw] if udp else [])]
        measure = iperf3 if shutil.which("iperf3") else iperf2
        rates = [fmtBps(rate, fmt) for rate in measure(client, server, port, words)]
        result = [udpBw, *rates] if udp else rates
        output(f"*** Results: {result}\n")
        return result

    def runCpuLimitTest(self, cpu: float, duration: int = 5) -> list[float]:
        """Measures the shares of all CPUs that busy hosts get; for `CPULimitedHost`."""
        line = (
            f"import time; end = time.time() + {duration}\n"
            "while time.time() < end: pass\n"
            f"print(time.process_time() / {duration * numCores()})"
        )
        running = [host.popen(["python3", "-c", line]) for host in self.hosts]
        shares = [float(child.communicate()[0]) for child in running]
        output(f"*** Results: {[f'{share:.0%}' for share in shares]}\n")
        return shares


def iperf3(client: Node, server: Node, port: int, words: list[str]) -> list[float]:
    """The rates of server and client in bit/s."""
    line = [*server.wrap(), "iperf3", "-s", "-1", "-p", str(port)]
    process = server.host.start(line, ready=_up.port(port))
    try:
        text, _, _ = client.pexec(["iperf3", "-J", "-c", str(server.IP()), *words])
    finally:
        process.stop()
    found = json.loads(text)
    if "error" in found:
        raise RuntimeError(f"iperf3 on {client}: {found['error']}")
    end = found["end"]
    if "sum_received" in end:
        return [end[name]["bits_per_second"] for name in ("sum_received", "sum_sent")]
    # UDP with iperf3 before 3.10.
    rate, lost = end["sum"]["bits_per_second"], end["sum"]["lost_percent"]
    return [rate * (1 - lost / 100), rate]


def iperf2(client: Node, server: Node, port: int, words: list[str]) -> list[float]:
    """The rates of server and client in bit/s."""
    udp, ready = (["-u"], _up.udp_port) if "-u" in words else ([], _up.port)
    line = [*server.wrap(), "iperf", "-s", "-y", "C", "-p", str(port), *udp]
    process = server.host.start(line, ready=ready(port))
    try:
        sent, problem, _ = client.pexec(["iperf", "-y", "C", "-c", str(server.IP()), *words])
        _up.poll_until(lambda: "\n" in process.stdout, 5)
    finally:
        process.stop()
    received = process.stdout
    if not sent.strip() or not received.strip():
        raise RuntimeError(f"iperf on {client} has no report\n{problem}")
    return [float(text.splitlines()[0].split(",")[8]) for text in (received, sent)]
