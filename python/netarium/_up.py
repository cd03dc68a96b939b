"""Labs that stay up: commands on hosts, changes of links, marks."""

from __future__ import annotations

import functools
import json
import math
import os
import re
import shlex
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Mapping, NamedTuple, Sequence

from . import _binary, _toml
from ._errors import LabError, ProgramError
from ._run import Run
from ._schema import LinkChanges
from ._section import given_keys, seconds

Command = str | Sequence[str]
"""A text is a line for `/bin/sh`; a list is a program and its arguments."""

POLL_SECONDS = 0.05
NO_LAB = "error: no running lab with name or identifier"


def port(number: int) -> str:
    """The condition that a program listens at a TCP port, for `ready`."""
    return f"port {number}"


def udp_port(number: int) -> str:
    """The condition that a program has bound a UDP port, for `ready`."""
    return f"udp port {number}"


def output(text: str) -> str:
    """The condition that a program has printed a text, for `ready`."""
    return f"output {_toml.value(text)}"


def file(path: str) -> str:
    """The condition that a file exists, for `ready`."""
    return f"file {_toml.value(path)}"


def probe(ready: str) -> tuple[str, str]:
    """The kind of a ready condition, and a line for /bin/sh that tests it (or its text)."""
    if found := re.fullmatch(r"(udp )?port (\d+)", ready):
        table, state = ("udp", "07") if found[1] else ("tcp", "0A")
        pattern = f":{int(found[2]):04X} [0-9A-F]+:0000 {state}"
        return "probe", f"cat /proc/net/{table} /proc/net/{table}6 | grep -qE '{pattern}'"
    if found := re.fullmatch(r'(output|file|command) (".*")', ready, re.DOTALL):
        kind, text = found[1], json.loads(found[2])
        if kind == "output":
            return kind, text
        return "probe", f"test -e {shlex.quote(text)}" if kind == "file" else text
    seconds("ready", ready)
    return "time", ready


def poll_until(is_done: Callable[[], bool], limit: float | None) -> bool:
    """Waits until a condition holds; False if it does not hold after `limit` seconds."""
    deadline = math.inf if limit is None else time.monotonic() + limit
    while not is_done():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


class Completed(NamedTuple):
    """A command that has ended: its exit status and its output."""

    command: list[str]
    exit_code: int
    stdout: str
    stderr: str


def words_of(command: Command) -> list[str]:
    return ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)


class Process:
    """A command that runs on `host`. `stop()` kills it; otherwise it ends with the lab."""

    def __init__(self, host: Host, command: list[str], user: str | None) -> None:
        self.host, self.command = host, command
        self._files = {name: tempfile.TemporaryFile() for name in ("stdout", "stderr")}
        self._child = host._start(command, user, **self._files)
        self._texts: dict[str, str] = {}

    @property
    def exit_code(self) -> int | None:
        """Its exit status; None while it runs; negative if a signal ended it."""
        return self._child.poll()

    @property
    def stdout(self) -> str:
        """Its standard output until now."""
        return self._read("stdout")

    @property
    def stderr(self) -> str:
        """Its standard error until now."""
        return self._read("stderr")

    def _read(self, name: str) -> str:
        if name in self._texts:
            return self._texts[name]
        # The command shares the offset of the file.
        number = self._files[name].fileno()
        return os.pread(number, os.fstat(number).st_size, 0).decode(errors="replace")

    def _finish(self) -> None:
        """Waits for its end, and closes the files of its output."""
        self._child.wait()
        self._texts = {name: self._read(name) for name in self._files}
        for file in self._files.values():
            file.close()

    def wait(self, timeout: str | None = None) -> int:
        """Waits for its end and returns its exit status. Raises TimeoutError."""
        limit = None if timeout is None else seconds("timeout", timeout)
        try:
            return self._child.wait(limit)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"{shlex.join(self.command)} runs for more than {timeout}") from None

    def stop(self) -> None:
        """Kills it and its child processes, with SIGKILL."""
        _binary.kill(self._child)
        self._finish()

    def __repr__(self) -> str:
        state = "running" if self.exit_code is None else f"exit status {self.exit_code}"
        return f"Process({shlex.join(self.command)} on {self.host.name}: {state})"


class Host:
    """A host of a running lab."""

    def __init__(self, lab: RunningLab, name: str, addresses: list[str]) -> None:
        self._lab, self.name = lab, name
        self.addresses = addresses
        """Its addresses with prefix lengths."""

    def _words(self, command: list[str], user: str | None) -> list[str]:
        as_user = [] if user is None else ["--user", user]
        return ["exec", *as_user, self._lab.id, self.name, "--", *command]

    def _start(self, command: list[str], user: str | None, **streams: Any) -> _binary.Child:
        return _binary.start(self._words(command, user), start_new_session=True, **streams)

    def run(
        self,
        command: Command,
        *,
        check: bool = False,
        timeout: str | None = None,
        input: str | None = None,
        user: str | None = None,
    ) -> Completed:
        """Runs a command and waits for its end.

        Arguments:
            command: A list is a program with arguments, a text a line for `/bin/sh`.
            check: Raise ProgramError if the exit status is not 0.
            timeout: Kill the command after this time, and raise TimeoutError.
            input: Its standard input.
            user: Its user instead of the host's.
        """
        limit = None if timeout is None else seconds("timeout", timeout)
        words = words_of(command)
        child = self._start(words, user, stdin=subprocess.PIPE)
        try:
            stdout, stderr = child.communicate(input or "", limit)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"{shlex.join(words)} ran for more than {timeout}") from None
        finally:
            _binary.kill(child)
        code = child.returncode
        if code and stderr.startswith(NO_LAB):
            _binary.fail(_binary.Result(2, [], stderr))
        if check and code:
            head = f"{shlex.join(words)} on {self.name} exited with status {code}"
            raise ProgramError(head, code, stderr)
        return Completed(words, code, stdout, stderr)

    def start(
        self,
        command: Command,
        *,
        ready: str | None = None,
        ready_timeout: str = "30 s",
        user: str | None = None,
    ) -> Process:
        """Starts a command, and returns when it is ready.

        Arguments:
            command: A list is a program with arguments, a text a line for `/bin/sh`.
            ready: A condition as in the lab file, for example `nt.port(80)`.
            ready_timeout: Time after which ProgramError is raised, also if it ended before.
            user: Its user instead of the host's.
        """
        limit = seconds("ready_timeout", ready_timeout)
        kind, test = probe(ready) if ready is not None else ("time", "0 s")
        process = Process(self, words_of(command), user)
        self._lab.processes.append(process)
        if kind == "time":
            time.sleep(seconds("ready", test))
            return process

        def is_ready() -> bool:
            code = process.exit_code
            if test in process.stdout if kind == "output" else self.run(test).exit_code == 0:
                return True
            if code is not None:
                text = f"{head} exited with status {code} before it was ready"
                raise ProgramError(text, code, process.stderr)
            return False

        head = f"{shlex.join(process.command)} on {self.name}"
        try:
            if not poll_until(is_ready, limit):
                raise ProgramError(f"{head} was not ready in time", None, process.stderr)
        except BaseException:
            process.stop()
            raise
        return process

    def __repr__(self) -> str:
        return f"Host({self.name!r}, {self.addresses})"


class Change:
    """A change of a link; at the end of `with`, the properties have their earlier values."""

    def __init__(self, link: RunningLink, earlier: dict[str, Any]) -> None:
        self._link, self._earlier = link, earlier

    def __enter__(self) -> RunningLink:
        return self._link

    def __exit__(self, *_: object) -> None:
        self.undo()

    def undo(self) -> None:
        """Sets the earlier values: those of the last `set`, else those at the start of the lab."""
        self._link._lab.set(self._earlier)


class RunningLink(LinkChanges):
    """A link of a running lab: `set` changes it."""

    def __init__(self, lab: RunningLab, name: str) -> None:
        self._lab, self.name = lab, name

    def _set(self, arguments: Mapping[str, Any], quantities: Mapping[str, str]) -> Change:
        keys = given_keys(arguments, quantities)
        fields = {"state": keys.pop("state")} if "state" in keys else {}
        own = {direction: keys.pop(direction, {}) for direction in ("up", "down")}
        for direction, inner in own.items():
            fields.update({f"{direction}.{key}": of for key, of in {**keys, **inner}.items()})
        earlier: dict[str, Any] = {}
        for field in fields:
            earlier.update(self._lab._earlier(self.name, field))
        self._lab.set({f"link.{self.name}.{field}": value for field, value in fields.items()})
        return Change(self, earlier)

    def __repr__(self) -> str:
        return f"RunningLink({self.name!r})"


class RunningLab:
    """A lab that is up. `lab["client"]` is a host; the end of `with` ends the lab."""

    def __init__(self, started: Mapping[str, Any], keep: bool = False) -> None:
        self.name, self.id = str(started["name"]), str(started["id"])
        self.folder = Path(started["folder"])
        """The run folder."""
        self.hosts = {h["name"]: Host(self, h["name"], h["addresses"]) for h in started["hosts"]}
        """The hosts by name."""
        self.processes: list[Process] = []
        """The commands that `Host.start` started, also those that have ended."""
        end = 'exec "$0" down --quiet "$1"'
        self._guard = None if keep else _binary.guard(end, _binary.binary(), self.id)
        self._changed: dict[str, Any] = {}
        self._result: Run | None = None

    def __enter__(self) -> RunningLab:
        return self

    def __exit__(self, *_: object) -> None:
        self.down()

    def __getitem__(self, host: str) -> Host:
        if host not in self.hosts:
            raise KeyError(f"lab has no host {host}; hosts: {', '.join(self.hosts)}")
        return self.hosts[host]

    @functools.cached_property
    def _resolved(self) -> dict[str, dict[str, Any]]:
        """The links by name, with all values at the start of the lab."""
        lab = _toml.reader()((self.folder / "lab.toml").read_text("utf-8"))
        return {link["name"]: link for link in lab.get("link", [])}

    def _earlier(self, link: str, field: str) -> dict[str, Any]:
        """The value of a field of a link, as fields for `set`."""
        direction, _, key = field.rpartition(".")
        head = f"link.{link}.{direction}." if direction else f"link.{link}."
        # A link has either a rate or a trace.
        keys = ("rate", "trace") if key in ("rate", "trace") else (key,)
        changed = {head + k: self._changed[head + k] for k in keys if head + k in self._changed}
        if changed:
            return changed
        start = self._resolved[link]
        values = start[direction] if direction else start
        return {head + k: values[k] for k in keys if k in values} or {head + key: "unlimited"}

    def link(self, a: str, b: str | None = None) -> RunningLink:
        """A link by its name, or by its two ends. Raises LookupError unless exactly one matches."""
        links = Run(self.folder).record["topology"]["links"]
        known = {link["name"]: link["name"] if b is None else set(link["ends"]) for link in links}
        found = [name for name, key in known.items() if key == (a if b is None else {a, b})]
        if len(found) != 1:
            what = f"named {a}" if b is None else f"between {a} and {b}"
            raise LookupError(f"{len(found)} links {what}; links: {', '.join(found or known)}")
        return RunningLink(self, found[0])

    def set(self, fields: Mapping[str, Any]) -> None:
        """Sets fields of links, for example `{"link.core.up.loss": "5 %"}`. Raises LabError."""
        _binary.call("set", self.id, *(_toml.setting(*pair) for pair in fields.items()))
        for field in fields:
            head, _, key = field.rpartition(".")
            if key in ("rate", "trace"):
                self._changed.pop(f"{head}.{'trace' if key == 'rate' else 'rate'}", None)
        self._changed.update(fields)

    def mark(self, text: str) -> None:
        """Adds a text to the events, with the time; a line in the plots of the report."""
        _binary.call("mark", self.id, text)

    def down(self) -> Run:
        """Ends the lab, and returns its results."""
        if self._result is None:
            try:
                _binary.call("down", self.id)
            except LabError:
                # It has ended before.
                if Run(self.folder).outcome == "running":
                    raise
            for process in self.processes:
                process._finish()
            if self._guard is not None:
                _binary.kill(self._guard)
            self._result = Run(self.folder)
        return self._result

    @property
    def result(self) -> Run:
        """The results; the outcome is `running` until the lab has ended."""
        return self._result or Run(self.folder)

    def __repr__(self) -> str:
        return f"RunningLab({self.name!r}, id {self.id}, hosts: {', '.join(self.hosts)})"
