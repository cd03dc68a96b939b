"""Hosts, routers and switches. Hosts have a shell that keeps its state between commands."""

from __future__ import annotations

import codecs
import contextlib
import os
import re
import select
import shlex
import signal
import subprocess
import tty
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, ClassVar

from .. import _binary, _up
from .log import debug, info, warn
from .util import Unsupported, nothing, numCores, without_mac

if TYPE_CHECKING:
    from .link import Intf
    from .net import Mininet

END, PID = "\x7f", re.compile("\x01([0-9]*)\x02")
# Commands arrive on standard input, each with a NUL at its end.
SHELL = r"""
__status=0
__return() { return $1; }
while IFS= read -r -d '' __command; do
  __return $__status
  eval "$__command" </dev/null
  __status=$?
  printf '\177'
done
"""
RENAME = (
    "ip link set dev eth{0} name {1} 2>/dev/null || "
    "ip link property add dev eth{0} altname {1} 2>/dev/null"
)


def line_of(args: tuple[Any, ...]) -> str:
    words = args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args
    return " ".join(map(str, words))


class HostPopen(subprocess.Popen[Any]):
    """A command on a host; signals reach the command and its child processes."""

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            os.killpg(self.pid, sig)


class Node:
    """A node. Instances are made by `Mininet.addHost`, `addSwitch` or a topology."""

    hasShell: ClassVar[bool] = True
    portBase: ClassVar[int] = 0
    outToNode: ClassVar[dict[int, Node]] = {}
    """Nodes by the number of the file of their output, for `poll`."""

    def __init__(self, name: str, inNamespace: bool = True, **params: Any) -> None:
        if not inNamespace and self.hasShell:
            raise Unsupported(f"inNamespace=False of {name}: all hosts of a lab have a namespace")
        self.name, self.params, self.inNamespace = name, params, inNamespace
        without_mac(name, params)
        for folder in params.get("privateDirs") or []:
            if not isinstance(folder, str):
                raise Unsupported(f"privateDirs of {name}: pairs of folders; only texts work")
        self.net: Mininet | None = None
        self.intfs: dict[int, Intf] = {}
        self.ports: dict[Intf, int] = {}
        self.nameToIntf: dict[str, Intf] = {}
        self.waiting = False
        self.lastCmd = ""
        self.lastPid: int | None = None
        self._shell: subprocess.Popen[bytes] | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    # Commands

    @property
    def lab(self) -> _up.RunningLab | None:
        """The lab while it is up."""
        return self.net.lab if self.net is not None else None

    @property
    def host(self) -> _up.Host:
        """The host in the running lab. A built network that has not started starts."""
        if not self.hasShell:
            raise Unsupported(f"commands on {self}: switches and controllers of a lab run none")
        if self.net is None or not (self.net.built or self.net.lab):
            raise Unsupported(f"command on {self}: nodes run commands after net.start()")
        self.net.start()
        assert self.net.lab is not None
        return self.net.lab[self.name]

    def wrap(self) -> list[str]:
        """Words in front of commands."""
        return []

    def _words(self, words: list[str]) -> list[str]:
        return [*self.wrap(), _binary.binary(), *self.host._words(words, None)]

    @property
    def shell(self) -> subprocess.Popen[bytes]:
        """The shell, which starts with the first command."""
        if self._shell is not None:
            return self._shell
        words = self._words(["bash", "--norc", "-c", SHELL])
        master, slave = os.openpty()
        tty.setraw(slave)
        self._shell = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=slave, stderr=slave, start_new_session=True
        )
        os.close(slave)
        self._shell.stdout = os.fdopen(master, "rb", 0)
        Node.outToNode[master] = self
        # The lab has its interfaces in the order of the links: `eth0`, `eth1`, …
        links = self.net.links if self.net else []
        ends = [end for link in links for end in (link.intf1, link.intf2) if end.node is self]
        for number, intf in enumerate(ends):
            self.cmd(RENAME.format(number, shlex.quote(intf.name)))
        return self._shell

    @property
    def stdout(self) -> IO[bytes]:
        """The output of the shell, a terminal."""
        assert self.shell.stdout is not None
        return self.shell.stdout

    @property
    def pid(self) -> int | None:
        """The process of the shell, by its number on the machine."""
        return next(iter(children(self.shell.pid)), None)

    def sendCmd(self, *args: Any, **_kwargs: Any) -> None:
        """Starts a command line in the shell; see `monitor` and `waitOutput`."""
        if self.waiting:
            raise RuntimeError(f"{self} still runs {self.lastCmd!r}")
        pipe = self.shell.stdin
        self.lastCmd, self.lastPid = line_of(args), None
        line = self.lastCmd
        if line.rstrip().endswith("&") and not line.rstrip().endswith("&&"):
            line += " printf '\\001%s\\002' $!"
        assert pipe is not None
        pipe.write(line.encode() + b"\0")
        pipe.flush()
        self.waiting = True

    def sendInt(self, intr: str = "\x03") -> None:
        """Interrupts the foreground command. Background commands ignore the signal."""
        for child in children(self.pid):
            os.kill(child, signal.SIGINT)

    def read(self, size: int = 4096) -> str:
        try:
            data = os.read(self.stdout.fileno(), size)
        except OSError:
            data = b""
        if not data:
            # The shell has exited; the next command starts another.
            Node.terminate(self)
        return self._decoder.decode(data)

    def monitor(self, timeoutms: int | None = None, findPid: bool = True) -> str:
        """New output; `waiting` is false after the end of the command."""
        poller = select.poll()
        poller.register(self.stdout.fileno(), select.POLLIN)
        if not poller.poll(timeoutms):
            return ""
        data = self.read()
        while data.count("\x01") > data.count("\x02") and self._shell is not None:
            data += self.read()
        if found := PID.search(data):
            self.lastPid = int(found[1] or 0) or None
            data = PID.sub("", data)
        if END in data:
            self.waiting = False
        return data.replace(END, "")

    def waitOutput(self, verbose: bool = False, findPid: bool = True) -> str:
        """The output until the end of the command."""
        text = ""
        while self.waiting:
            data = self.monitor()
            text += data
            (info if verbose else debug)(data)
        return text

    def cmd(self, *args: Any, verbose: bool = False, **_kwargs: Any) -> str:
        """Runs a command line in the shell; returns standard output and standard error."""
        (info if verbose else debug)(f"*** {self} : {args}\n")
        self.sendCmd(*args)
        return self.waitOutput(verbose)

    def cmdPrint(self, *args: Any) -> str:
        return self.cmd(*args, verbose=True)

    def popen(self, *args: Any, **kwargs: Any) -> HostPopen:
        """Starts a command outside the shell. Arguments are those of `subprocess.Popen`."""
        assert self.shell
        if kwargs.pop("shell", False):
            words = ["/bin/bash", "-c", line_of(args)]
        elif len(args) == 1 and isinstance(args[0], str):
            words = args[0].split()
        else:
            words = list(map(str, args[0] if len(args) == 1 else args))
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "start_new_session": True}
        return HostPopen(self._words(words), **{**pipes, **kwargs})

    def pexec(self, *args: Any, **kwargs: Any) -> tuple[str, str, int]:
        """Runs a command outside the shell. Returns output, error output, exit status."""
        child = self.popen(*args, stdin=subprocess.DEVNULL, text=True, errors="replace", **kwargs)
        out, err = child.communicate()
        return out, err, child.returncode

    def isListening(self, port: int, udp: bool = False) -> bool:
        """Whether a program listens at a TCP port, or has bound a UDP port."""
        condition = _up.udp_port(port) if udp else _up.port(port)
        return self.host.run(_up.probe(condition)[1]).exit_code == 0

    def terminate(self) -> None:
        """Ends the shell; called by `net.stop()`."""
        if self._shell is not None and self._shell.stdout is not None:
            Node.outToNode.pop(self._shell.stdout.fileno(), None)
            _binary.kill(self._shell)
        self._shell = None
        self.waiting = False

    # Interfaces

    def newPort(self) -> int:
        return max(self.ports.values()) + 1 if self.ports else self.portBase

    def addIntf(self, intf: Intf, port: int | None = None, **_kwargs: Any) -> None:
        port = self.newPort() if port is None else port
        if port in self.intfs or intf.name in self.nameToIntf:
            raise ValueError(f"{self} has an interface {intf} or port {port} already")
        self.intfs[port], self.ports[intf], self.nameToIntf[intf.name] = intf, port, intf

    def intfList(self) -> list[Intf]:
        return [self.intfs[port] for port in sorted(self.intfs)]

    def intfNames(self) -> list[str]:
        return [intf.name for intf in self.intfList()]

    def defaultIntf(self) -> Intf | None:
        return self.intfs[min(self.intfs)] if self.intfs else None

    def intf(self, intf: Any = None) -> Any:
        """An interface by its name; the first by default."""
        return self.nameToIntf[intf] if isinstance(intf, str) else intf or self.defaultIntf()

    def connectionsTo(self, node: Node) -> list[tuple[Intf, Intf]]:
        pairs = [(intf, intf.peer()) for intf in self.intfList()]
        return [(mine, other) for mine, other in pairs if other is not None and other.node is node]

    def IP(self, intf: Any = None) -> str | None:
        found = self.intf(intf)
        ip = self.params.get("ip") if intf is None else None
        return (found and found.IP()) or (ip.split("/")[0] if ip else None)

    # Interfaces are of layer 3.
    MAC = setARP = staticmethod(nothing)

    def setIP(self, ip: str, prefixLen: int = 8, intf: Any = None, **_kwargs: Any) -> None:
        self.intf(intf).setIP(ip, prefixLen)

    def setDefaultRoute(self, intf: Any = None) -> str:
        """Sets the default route, to an interface or a text such as `via 10.0.0.1`."""
        route = intf if isinstance(intf, str) and " " in intf else f"dev {self.intf(intf)}"
        return self.cmd("ip route replace default", route)

    def config(self, defaultRoute: Any = None, **_params: Any) -> dict[str, Any]:
        """Called at the start with the node's parameters; subclasses extend it."""
        if defaultRoute is not None and (message := self.setDefaultRoute(defaultRoute)):
            warn(f"{self}: defaultRoute={defaultRoute!r}: {message}")
        return {}

    def configDefault(self, **moreParams: Any) -> None:
        self.params.update(moreParams)
        self.config(**self.params)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        intfs = ",".join(f"{intf}:{intf.IP()}" for intf in self.intfList())
        return f"<{type(self).__name__} {self.name}: {intfs}> "


def children(pid: int | None) -> list[int]:
    with contextlib.suppress(OSError):
        return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
    return []


class Host(Node):
    """A host."""


class CPULimitedHost(Host):
    """A host with a share of the machine's CPUs (`cpu`, with cgroups) or on certain CPUs (`cores`).

    A `cpu` limit needs write access to the cgroup of the machine, usually root.
    """

    def __init__(self, name: str, sched: str = "cfs", **params: Any) -> None:
        super().__init__(name, **params)
        self.cores = ""
        self.group: Path | None = None
        self.period_us = int(params.get("period_us", 100_000))
        self.cpu = float(params.get("cpu") or -1)
        if params.get("cores") is not None:
            self.setCPUs(params["cores"])

    def setCPUFrac(self, f: float, sched: str | None = None) -> None:
        """Sets the share of all CPUs; no limit if it is not positive. Before the first command."""
        self.cpu = f

    def setCPUs(self, cores: Any, mems: int = 0) -> None:
        """Sets the CPUs of its commands. Before the first command."""
        listed = cores if isinstance(cores, (list, tuple)) else [cores]
        self.cores = ",".join(map(str, listed))

    def limit(self) -> None:
        """Makes the cgroup of the host."""
        assert self.lab is not None
        quota = int(self.cpu * self.period_us * numCores())
        root, settings = Path("/sys/fs/cgroup"), {"cpu.max": f"{quota} {self.period_us}"}
        if (root / "cpu").is_dir():
            # cgroups v1
            root /= "cpu"
            settings = {"cpu.cfs_period_us": f"{self.period_us}", "cpu.cfs_quota_us": f"{quota}"}
        group = root / f"netarium-{self.lab.id}-{self.name}"
        try:
            group.mkdir()
            self.group = group
            for key, value in settings.items():
                (group / key).write_text(value)
        except OSError as error:
            self.cpu = -1
            self.remove_group()
            warn(f"{self}: cpu has no effect: {error}\n")

    def remove_group(self) -> None:
        if self.group is not None:
            self.group.rmdir()
        self.group = None

    def wrap(self) -> list[str]:
        assert self.host
        if self.cpu > 0 and self.group is None:
            self.limit()
        words = ["taskset", "-c", self.cores] if self.cores else []
        if self.group is not None:
            line = 'echo $$ >"$0" && exec "$@"'
            words += ["/bin/sh", "-c", line, str(self.group / "cgroup.procs")]
        return words


class Switch(Node):
    """A switch of the lab: it forwards without a controller, on shortest paths."""

    hasShell = False
    portBase = 1

    def __init__(self, name: str, dpid: str | None = None, **params: Any) -> None:
        super().__init__(name, **params)
        self.dpid = dpid

    setup = staticmethod(nothing)

    def start(self, controllers: Any = None) -> None:
        """Brings its links up. A built network that has not started starts."""
        if self.net is not None and self.net.built and self.lab is None:
            self.net.start()
        self._links("up")

    def stop(self, deleteIntfs: bool = True) -> None:
        """Takes its links down."""
        self._links("down")

    def _links(self, state: str) -> None:
        for intf in self.intfList():
            if intf.link is not None and intf.link.up != (state == "up"):
                intf.link.set_state(state)

    def connected(self) -> bool:
        return True


class OVSSwitch(Switch):
    """A switch; its OpenFlow parameters have no effect."""


OVSKernelSwitch = OVSBridge = IVSSwitch = UserSwitch = OVSSwitch


class Controller(Node):
    """A controller, which labs do not need: it does nothing."""

    hasShell = False

    def __init__(self, name: str, **params: Any) -> None:
        if type(self) is not Controller:
            raise Unsupported(
                f"controller {type(self).__name__} {name}: switches of labs do not speak OpenFlow"
            )
        super().__init__(name, **params)
        info(f"controller {name} has no effect: switches of labs need none\n")

    start = stop = staticmethod(nothing)


class RemoteController(Controller):
    """Not supported."""


DefaultController = OVSController = Controller


NullController = nothing
