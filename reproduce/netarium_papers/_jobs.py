"""Starts runs as child processes, several at once, and reads their folders."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import socket
import subprocess
import threading
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Any, Callable, Optional, Sequence

import netarium as nt

from ._run import Job, Run

WITH_RESULTS = (0, 1, 3)
INTERRUPTED = 130
# Variables that would change the lab of a figure.
REMOVED = ("NETARIUM_SEED", "NETARIUM_DURATION", "NETARIUM_NAME")
MAX_LOG_LINES = 12


class PaperError(Exception):
    """A figure cannot be made; `exit_code` is that of the binary."""

    def __init__(self, message: str, exit_code: int = 4) -> None:
        self.exit_code = exit_code
        super().__init__(message)


class Start:
    """Holds runs on the wall clock until all are ready, or releases each when it is ready."""

    def __init__(self, count: int) -> None:
        self._missing, self._changed = count, threading.Condition()

    def arrive(self) -> None:
        """A run is ready, or has ended before."""
        with self._changed:
            self._missing -= 1
            self._changed.notify_all()

    def wait(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._missing <= 0)


class Jobs:
    """Performs jobs; the first error or an interrupt stops all."""

    def __init__(self, done: Callable[[], None]) -> None:
        self._done = done
        self._lock, self._stopped = threading.Lock(), False
        self._children: set[subprocess.Popen[str]] = set()

    def perform(
        self, jobs: Sequence[Job], words: Callable[[Job], list[str]], limit: int, together: bool
    ) -> list[Run]:
        """Runs of the jobs in their order, at most `limit` at once.

        With `together` the labs begin when all are ready.
        """
        start = Start(len(jobs)) if together else None
        with ThreadPoolExecutor(max(min(limit, len(jobs)), 1)) as pool:
            futures = [pool.submit(self._one, job, words(job), start) for job in jobs]
            try:
                wait(futures, return_when=FIRST_EXCEPTION)
            except BaseException:
                self._stop()
                raise
            failed = [future for future in futures if future.done() and future.exception()]
            if failed:
                self._stop()
                raise failed[0].exception() or AssertionError
        return [future.result() for future in futures]

    def _stop(self) -> None:
        with self._lock:
            self._stopped = True
            for child in self._children:
                child.send_signal(signal.SIGINT)

    def _one(self, job: Job, words: list[str], start: Optional[Start]) -> Run:
        ours, theirs = socket.socketpair()
        is_waited_for = start is not None
        with ours, theirs:
            try:
                with self._lock:
                    if self._stopped:
                        raise KeyboardInterrupt
                    child = self._start(job, words, theirs)
                    self._children.add(child)
                theirs.close()
                # The run writes a byte when it is ready, and begins when it receives one.
                if job.clock == "wall" and ours.recv(1):
                    if start:
                        is_waited_for = False
                        start.arrive()
                        start.wait()
                    with contextlib.suppress(OSError):
                        ours.send(b"\0")
                stdout, stderr = child.communicate()
            finally:
                if start and is_waited_for:
                    start.arrive()
        with self._lock:
            self._children.discard(child)
        run = Run(folder(stdout, stderr, child.returncode, words), job)
        self._done()
        return run

    def _start(self, job: Job, words: list[str], control: socket.socket) -> subprocess.Popen[str]:
        # A run on the wall clock notices by its control socket if this process is killed.
        hold = job.clock == "wall"
        return subprocess.Popen(
            [nt.binary(), *words, *(["--await-start"] if hold else [])],
            stdin=control.fileno() if hold else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env={name: value for name, value in os.environ.items() if name not in REMOVED},
            start_new_session=True,
        )


def folder(stdout: str, stderr: str, code: int, words: list[str]) -> str:
    """The folder of a run that came to its end, trusted or not. Raises PaperError otherwise."""
    lines = [line for line in stdout.splitlines() if line.startswith("{")]
    found: dict[str, Any] = json.loads(lines[-1]) if lines else {}
    if code in WITH_RESULTS and "folder" in found:
        return str(found["folder"])
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    command = shlex.join(["netarium", *words])
    text = complaint(found, stderr.splitlines()[-MAX_LOG_LINES:], code)
    raise PaperError(f"{text}; repeat: {command}", code if 0 < code < 128 else 70)


def complaint(found: dict[str, Any], log: list[str], code: int) -> str:
    parts = [found["message"]] if found.get("message") else []
    parts += [error["message"] for error in found.get("errors", [])]
    for program in found.get("programs", []):
        if program["as_expected"] is False:
            lines = "\n".join(program.get("last_stderr", []))
            parts.append(f"program {program['name']} on {program['node']} failed\n{lines}")
    text = "\n".join(parts or [line for line in log if line.strip()]).rstrip()
    return text or f"the run ended with code {code}"
