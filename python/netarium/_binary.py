"""Finds and starts the binary, and turns its errors into exceptions."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
from pathlib import Path
from typing import Any, Iterable, Iterator, NamedTuple, NoReturn, Sequence

from ._errors import CapabilityError, Diagnostic, InternalError, LabError, ProgramError

Child = subprocess.Popen[Any]
INTERRUPTED = 130

# The command for which each thread waits.
awaited: dict[int, Child] = {}


class Result(NamedTuple):
    """The end of a command: its exit code, its JSON objects and its log output."""

    exit_code: int
    objects: list[dict[str, Any]]
    stderr: str


def binary() -> str:
    """The path of the binary.

    The environment variable `NETARIUM_BINARY`, else the scripts of this Python (where
    `pip install netarium` puts it), else `PATH`. Raises CapabilityError if there is none.
    """
    if named := os.environ.get("NETARIUM_BINARY"):
        if os.access(named, os.X_OK):
            return named
        raise CapabilityError(f"NETARIUM_BINARY={named} is not a program", "unset it or correct it")
    user = sysconfig.get_path("scripts", sysconfig.get_preferred_scheme("user"))
    folders = [str(Path(sys.executable).parent), sysconfig.get_path("scripts"), user]
    found = shutil.which("netarium", path=os.pathsep.join(folders)) or shutil.which("netarium")
    if found is None:
        raise CapabilityError(
            "the program netarium is not installed",
            "pip install netarium, or set NETARIUM_BINARY to the path of the program",
        )
    return found


def start(words: Sequence[str], **streams: Any) -> Child:
    """Starts the binary with text streams: pipes, and no input unless `streams` has others."""
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    # A second interrupt kills the command. In the main thread, which gets Ctrl-C, the command has
    # its own session and `wait` passes the interrupt on; in others it gets that of the terminal.
    is_main = threading.current_thread() is threading.main_thread()
    keys: dict[str, Any] = {**pipes, "start_new_session": is_main, **streams}
    return subprocess.Popen([binary(), *words], text=True, errors="replace", **keys)


def kill(child: Child) -> None:
    """Kills a command and its child processes, unless it has ended: they are a process group."""
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    for pipe in (child.stdin, child.stdout, child.stderr):
        if pipe is not None:
            pipe.close()


def guard(line: str, *words: str) -> subprocess.Popen[bytes]:
    """A process that runs a line of the shell, with the words as `$0`, `$1` and so on, when this
    process ends, even by SIGKILL: its input is then at its end. `kill` ends it without that.
    """
    return subprocess.Popen(
        ["/bin/sh", "-c", f"read -r _; {line}", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


@contextlib.contextmanager
def guarded(line: str, *words: str) -> Iterator[None]:
    """`guard` while the context lasts."""
    process = guard(line, *words)
    try:
        yield
    finally:
        kill(process)


def wait(child: Child) -> Result:
    """Waits for the end. An interrupt or the end of this process interrupts the command, which then
    ends with its results; a second interrupt kills it."""
    thread = threading.get_ident()
    awaited[thread] = child
    try:
        with guarded('kill -INT "$0"', str(child.pid)):
            stdout, stderr = child.communicate()
        code = child.returncode
    except BaseException:
        child.send_signal(signal.SIGINT)
        code = INTERRUPTED
        try:
            stdout, stderr = child.communicate()
        except BaseException:
            child.kill()
            child.wait()
            raise
    finally:
        del awaited[thread]
    objects = [json.loads(line) for line in stdout.split("\n") if line.startswith("{")]
    return Result(code if code >= 0 else INTERRUPTED, objects, stderr)


def interrupt(threads: Iterable[int]) -> None:
    """Interrupts the commands for which these threads wait."""
    for thread in threads:
        if child := awaited.get(thread):
            child.send_signal(signal.SIGINT)


def call(*words: str, text: str | None = None, codes: Sequence[int] = (0,)) -> list[dict[str, Any]]:
    """Runs a subcommand with `--json`; returns its objects. Raises its error.

    `text` is the content of the lab file, for errors. `codes` are exit codes without an error.
    """
    result = wait(start(["--json", "--quiet", *words]))
    if result.exit_code not in codes:
        fail(result, text)
    return result.objects


def output(*words: str) -> str:
    """The standard output of a subcommand as a text. Raises its error."""
    done = subprocess.run(
        [binary(), *words], stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if done.returncode:
        fail(Result(done.returncode, [], done.stderr))
    return done.stdout


def fail(result: Result, text: str | None = None) -> NoReturn:
    """Raises the exception for the error of a command."""
    if result.exit_code == INTERRUPTED:
        raise KeyboardInterrupt
    message, help_text = "", None
    for found in result.objects:
        if found.get("ok") is False:
            file = found.get("file") if text is None else None
            keys = [{key: error[key] for key in Diagnostic._fields} for error in found["errors"]]
            raise LabError([Diagnostic(**error) for error in keys], file, text)
        if found.get("schema") == "netarium.error/1":
            message, help_text = found["message"], found["help"]
    reasons = [reason for found in result.objects for reason in found.get("reasons") or []]
    message = message or "; ".join(reasons) or result.stderr.strip()
    message = message or f"netarium ended with exit code {result.exit_code}"
    if result.exit_code in (1, 2):
        raise LabError([Diagnostic(None, message, help_text)])
    if result.exit_code == 4:
        raise CapabilityError(message, help_text)
    if result.exit_code == 5:
        raise ProgramError(message, stderr=result.stderr)
    raise InternalError(message)
