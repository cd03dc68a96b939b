"""Functions that scripts use beside the network."""

import functools
import os
import re
import select
import shlex
import subprocess
from typing import Any, Iterable, Iterator, Mapping

from .._errors import NetariumError
from .._up import poll_until
from .log import output


Port = int | None
"""The number of an interface at its node; None stands for the next one."""


class Unsupported(NetariumError):
    """A call or argument of Mininet that labs do not have; the message names it."""


def without_mac(owner: str, params: Mapping[str, Any]) -> None:
    """Raises Unsupported if a parameter is a MAC address."""
    for name in ("mac", "addr1", "addr2"):
        if params.get(name) is not None:
            what = f"{name}={params[name]!r} of {owner}"
            raise Unsupported(f"{what}: interfaces of labs have no MAC address")


def irange(start: int, end: int) -> Iterable[int]:
    """The numbers from `start` to `end`, both inclusive."""
    return range(start, end + 1)


custom = functools.partial
"""`custom(cls, **params)`: a class with other default parameters."""


def natural(text: str) -> list[Any]:
    """A key that sorts `h2` before `h10`."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", str(text))]


def decode(data: bytes | str) -> str:
    return data.decode(errors="replace") if isinstance(data, bytes) else data


def numCores() -> int:
    return os.cpu_count() or 1


def nothing(*_args: Any, **_kwargs: Any) -> None:
    """Does nothing: labs need no root, no ARP, no controller and no clean-up."""


ensureRoot = nothing


def quietRun(cmd: str | list[str], shell: bool = False) -> str:
    """Runs a command on the machine; returns standard output and standard error."""
    words = shlex.split(cmd) if isinstance(cmd, str) and not shell else cmd
    pipe, both = subprocess.PIPE, subprocess.STDOUT
    return decode(subprocess.run(words, shell=shell, stdout=pipe, stderr=both).stdout)


def dumpNodeConnections(nodes: Iterable[Any]) -> None:
    """Prints the interfaces of nodes, each with its peer."""
    for node in nodes:
        parts = [f" {intf}:{intf.peer()}" for intf in node.intfList()]
        output(node.name + "".join(parts) + "\n")


def dumpNetConnections(net: Any) -> None:
    dumpNodeConnections(net.controllers + net.switches + net.hosts)


def fmtBps(bps: float, prefix: str | None = "", fmt: str = "%.1f %sbits/sec") -> str:
    """A rate as iperf writes it. `prefix` is k, M, G or T, by default the largest that fits."""
    factors = {"": 1e0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
    wanted = [name for name in factors if prefix and name.lower() == prefix.lower()]
    fitting = [name for name, factor in factors.items() if bps >= factor]
    chosen = (wanted or fitting or [""])[-1]
    return fmt % (float(bps) / factors[chosen], chosen)


def waitListening(
    client: Any = None, server: Any = None, port: int = 80, timeout: float | None = None
) -> bool:
    """Waits until a program on the node `server` listens at a TCP port; False after `timeout` s.

    `server` may be an address if the node `client` is given.
    """
    if isinstance(server, str):
        server = next(host for host in client.net.hosts if host.IP() == server)
    return poll_until(lambda: server.isListening(port), timeout)


def pmonitor(
    popens: dict[Any, Any], timeoutms: int = 500, readline: bool = True, readmax: int = 1024
) -> Iterator[tuple[Any, str]]:
    """The output of `popen` objects by node: yields node and line until all have ended.

    Yields `None, ''` if there was no output for `timeoutms`. Nodes that have ended are removed.
    """
    poller = select.poll()
    nodes = {popen.stdout.fileno(): node for node, popen in popens.items()}
    rest = dict.fromkeys(nodes, b"")
    for fd in nodes:
        poller.register(fd, select.POLLIN)
    while nodes:
        ready = poller.poll(timeoutms)
        if not ready:
            yield None, ""
        for fd, _ in ready:
            data = os.read(fd, readmax)
            chunks = (rest[fd] + data).splitlines(True) if readline else [data] if data else []
            rest[fd] = b""
            if readline and data and chunks and not chunks[-1].endswith(b"\n"):
                rest[fd] = chunks.pop()
            for chunk in chunks:
                yield nodes[fd], decode(chunk)
            if not data:
                poller.unregister(fd)
                del popens[nodes.pop(fd)]
