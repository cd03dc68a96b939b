"""The command line: `CLI(net)` reads commands until `exit`."""

from __future__ import annotations

import cmd
import subprocess
import sys
from typing import Any, Callable

from .log import error, output
from .net import Mininet
from .util import dumpNodeConnections


def command(about: str, call: Callable[[Mininet, str], Any]) -> Callable[[CLI, str], None]:
    """A command that prints the text of a call, if it returns one."""

    def do(cli: CLI, line: str) -> None:
        found = call(cli.mn, line)
        output(found if isinstance(found, str) else "")

    do.__doc__ = about
    return do


class CLI(cmd.Cmd):
    """Reads commands from a terminal, from `stdin`, or from the file `script`."""

    prompt = "mininet> "

    def __init__(
        self, mininet: Mininet, stdin: Any = None, script: str | None = None, **kwargs: Any
    ) -> None:
        self.mn = mininet
        self.locals: dict[str, Any] = {"net": mininet}
        given = stdin or sys.stdin
        super().__init__(stdin=given, **kwargs)
        if script is not None:
            self.do_source(script)
            return
        terminal = given is sys.stdin and sys.stdin.isatty()
        self.use_rawinput = terminal
        self.prompt = self.prompt if terminal else ""
        while True:
            try:
                self.cmdloop()
                return
            except KeyboardInterrupt:
                output("\nInterrupt\n")

    def precmd(self, line: str) -> str:
        return line.split("#")[0]

    def emptyline(self) -> bool:
        return False

    do_nodes = command(
        "List the nodes.", lambda net, _: f"available nodes are: \n{' '.join(sorted(net))}\n"
    )
    do_net = command(
        "List the nodes with their links.", lambda net, _: dumpNodeConnections(net.values())
    )
    do_intfs = command(
        "List the interfaces.",
        lambda net, _: "".join(f"{n}: {','.join(n.intfNames())}\n" for n in net.values()),
    )
    do_dump = command(
        "List the nodes with their addresses.",
        lambda net, _: "".join(f"{node!r}\n" for node in net.values()),
    )
    do_links = command(
        "List the links with their states.",
        lambda net, _: "".join(f"{link} {link.status()}\n" for link in net.links),
    )
    do_pingall = command(
        "Ping between all hosts: pingall [TIMEOUT]", lambda net, line: net.pingAll(line or None)
    )
    do_pingpair = command("Ping between the first two hosts.", lambda net, _: net.pingPair())
    do_pingallfull = command("Ping all hosts, with RTTs.", lambda net, _: net.pingAllFull())
    do_pingpairfull = command("Ping two hosts, with RTTs.", lambda net, _: net.pingPairFull())

    def do_link(self, line: str) -> None:
        """Change the state of a link: link NODE NODE up|down"""
        words = line.split()
        if len(words) != 3 or words[2] not in ("up", "down"):
            error("usage: link NODE NODE up|down\n")
            return
        self.mn.configLinkStatus(*words)

    def _iperf(self, names: Any, **kwargs: Any) -> None:
        unknown = [name for name in names if name not in self.mn]
        if unknown or len(names) not in (0, 2):
            error(f"usage: iperf [HOST HOST]; not in the network: {' '.join(unknown)}\n")
            return
        self.mn.iperf([self.mn[name] for name in names] or None, **kwargs)

    def do_iperf(self, line: str) -> None:
        """Measure TCP throughput: iperf [HOST HOST]"""
        self._iperf(line.split())

    def do_iperfudp(self, line: str) -> None:
        """Measure UDP throughput: iperfudp RATE [HOST HOST]"""
        rate, *names = line.split() or ["10M"]
        self._iperf(names, l4Type="UDP", udpBw=rate)

    def do_sh(self, line: str) -> None:
        """Run a command line on the machine."""
        subprocess.run(line, shell=True)

    def do_py(self, line: str) -> None:
        """Evaluate a Python expression; nodes are variables."""
        try:
            result = eval(line, globals(), {**self.mn.nameToNode, **self.locals})
        except Exception as problem:
            output(f"{problem}\n")
            return
        if result is not None:
            output(f"{result}\n")

    def do_source(self, line: str) -> None:
        """Read commands from a file, up to `exit`: source FILE"""
        with open(line.strip(), encoding="utf-8") as file:
            any(self.onecmd(self.precmd(text.strip())) for text in file)

    def do_xterm(self, line: str) -> None:
        """Print the command that opens a shell on a host."""
        identifier = self.mn.lab.id if self.mn.lab else "LAB"
        for name in line.split():
            output(f"netarium shell {identifier} {name}\n")

    def do_exit(self, _line: str) -> bool:
        """End."""
        return True

    do_quit = do_exit

    def do_EOF(self, _line: str) -> bool:
        """End."""
        output("\n")
        return True

    def default(self, line: str) -> None:
        """Runs a command on a node: HOST COMMAND. Names of hosts stand for their addresses."""
        name, *words = line.split(" ")
        if name not in self.mn:
            error(f"*** Unknown command: {line}\n")
            return
        if not words:
            error(f"*** Please enter a command for node: {name} <cmd>\n")
            return
        node = self.mn[name]
        replaced = [(self.mn[word].IP() if word in self.mn else None) or word for word in words]
        node.sendCmd(" ".join(replaced))
        while node.waiting:
            try:
                output(node.monitor())
            except KeyboardInterrupt:
                node.sendInt()
