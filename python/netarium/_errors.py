"""Exceptions."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ._run import Run, RunSet


class NetariumError(Exception):
    """The base of all errors of this package."""


class Diagnostic(NamedTuple):
    """An error in a lab; `line` and `column` start at 1 and are 0 if unknown."""

    code: str | None
    message: str
    help: str | None = None
    line: int = 0
    column: int = 0


class LabError(NetariumError):
    """The lab or a command is wrong.

    All errors are in `errors`. `code` (for example `lab::E0005`), `line`, `column` and `help` are
    those of the first one. `file` is the lab file, or None for a lab of Python code; lines are
    then those of `Lab.to_toml()`.
    """

    def __init__(
        self, errors: list[Diagnostic], file: str | None = None, text: str | None = None
    ) -> None:
        self.errors, self.file = errors, file
        self.code, _, self.help, self.line, self.column = errors[0]
        source = (text or "").splitlines()
        parts = []
        for error in errors:
            place = f"{file or 'line'}{':' if file else ' '}{error.line}: " if error.line else ""
            code = f"{error.code}: " if error.code else ""
            part = f"{place}{code}{error.message}"
            if 0 < error.line <= len(source):
                part += f"\n    {source[error.line - 1].strip()}"
            parts.append(part + (f"\n  help: {error.help}" if error.help else ""))
        super().__init__("\n".join(parts))


class CapabilityError(NetariumError):
    """This machine lacks a capability, a device, disk space or memory. `cure` is the fix."""

    def __init__(self, message: str, cure: str | None = None) -> None:
        self.cure = cure
        super().__init__(message + (f"\n  cure: {cure}" if cure else ""))


class InternalError(NetariumError):
    """An internal error of Netarium; please report it."""


class ProgramError(NetariumError):
    """A program failed. `exit_code` is its exit status, None if it has none.

    `run` has the results of the run of which the program is a part; None for commands on hosts.
    """

    def __init__(
        self, message: str, exit_code: int | None = None, stderr: str = "", run: Run | None = None
    ) -> None:
        self.exit_code, self.stderr, self.run = exit_code, stderr, run
        super().__init__(message + (f"\n{stderr.rstrip()}" if stderr.strip() else ""))


class RunError(NetariumError):
    """A run did not pass; `run` has its results."""

    def __init__(self, run: Run) -> None:
        self.run = run
        super().__init__(f"{run.outcome}: " + "; ".join(run.reasons))


class UntrustedRunError(RunError):
    """The machine distorted the results of a run; `run.verdict` has the reasons."""


class FailedRunError(RunError):
    """An expectation failed, or the run ended with an error."""


class RunInterrupted(KeyboardInterrupt):
    """Ctrl-C ended a run; `run` has its results until then, or is None if it had not started."""

    def __init__(self, run: Run | RunSet | None) -> None:
        self.run = run
        super().__init__(f"results: {run.folder}" if run else "interrupted before the run started")
