"""Labs: their sections, and the commands that check, run and sweep them."""

from __future__ import annotations

import contextlib
import copy
import fnmatch
import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterable, Iterator, Mapping, TypedDict, overload

from . import _binary, _run, _toml, _up
from ._errors import Diagnostic, LabError
from ._run import PathLike, Run, RunSet
from ._schema import Keys
from ._section import Link, Node, Section, given_keys, link_name

if TYPE_CHECKING:
    from typing_extensions import Unpack

Settings = Mapping[str, Any]
"""Values for fields of a lab, such as `{"link.core.delay": "10 ms"}`."""


class Overrides(TypedDict, total=False):
    """Arguments that override values of the lab."""

    duration: str | None
    seed: int | None
    name: str | None
    set: Settings | None


class RunKeys(Overrides, total=False):
    """Arguments of `Lab.sim` and `Lab.run`."""

    flows: Iterable[Section]
    runs: PathLike
    check: bool


def overrides(**given: Unpack[Overrides]) -> list[str]:
    """The options that override values of a lab file."""
    keys = given_keys(given, {"duration": "10 s"})
    fields = keys.pop("set", {})
    options = [(f"--{key}", str(value)) for key, value in keys.items()]
    options += [("--set", _toml.setting(*pair)) for pair in fields.items()]
    return [word for option in options for word in option]


class Lab(Keys):
    """A lab: nodes, links, traffic, programs, events and expectations.

    Methods and their arguments have the names of the sections and keys of the lab file. Quantities
    are texts with a unit (`"10 ms"`). Names of nodes and links are texts too. `folder` is the
    folder of the lab, to which its files are relative; default: the working directory.
    """

    folder: Path = Path()
    _original: tuple[Path, str, dict[str, Any]] | None = None

    @classmethod
    def from_toml(cls, source: str | os.PathLike[str]) -> Lab:
        """The lab of a TOML text, or of a file if `source` is a path or ends with `.toml`.

        Comments are not retained. Raises LabError if the text is not TOML, and OSError if the
        file cannot be read.
        """
        path = None
        if not isinstance(source, str) or re.fullmatch(r"[^\n]*\.toml", source):
            path = Path(source)
        text = path.read_text(encoding="utf-8") if path else str(source)
        lab = cls.__new__(cls)
        try:
            lab.data = _toml.reader()(text)
        except ValueError as error:
            found = re.search(r"line (\d+), column (\d+)", str(error))
            line, column = map(int, found.groups()) if found else (0, 0)
            what = Diagnostic("lab::E0001", f"the file is not TOML: {error}", None, line, column)
            raise LabError([what], str(path) if path else None, text) from None
        if path:
            lab.folder = path.parent
            lab.data = {"lab": {"name": path.stem, **lab.data.pop("lab", {})}, **lab.data}
            lab._original = (path.absolute(), text, copy.deepcopy(lab.data))
        return lab

    def to_toml(self) -> str:
        """The lab as the text of a lab file; `Lab.from_toml` reads it back."""
        return _toml.write(self.data)

    @property
    def name(self) -> str:
        """The name of the lab, and of its run folders."""
        return str(self.data.get("lab", {}).get("name", "lab"))

    def nodes(self, pattern: str = "*") -> list[Node]:
        """Names of the nodes that match a pattern with `*` and `?`, in the order of the lab.

        Nodes of `generate` and `import_` are not among them: only the binary knows these.
        """
        return [Node(name) for name in fnmatch.filter(self.data.get("node", {}), pattern)]

    def links(self, pattern: str = "*") -> list[Link]:
        """Names of the links that match a pattern, as `nodes` does."""
        names = map(link_name, self.data.get("link", []))
        return [Link(name) for name in fnmatch.filter(names, pattern)]

    def add(self, *sections: Section) -> Lab:
        """Adds sections that were made separately, such as `nt.bulk(...)`. Returns the lab."""
        for section in sections:
            self.data.setdefault(section._key, []).append(section)
        return self

    def remove(self, name: str) -> Lab:
        """Removes a node with its links, or a link, by its name. Returns the lab.

        Raises KeyError if there is neither.
        """
        links = self.data.get("link", [])
        is_node = self.data.get("node", {}).pop(name, None) is not None
        removed = [k for k in links if name in (k["ends"] if is_node else [link_name(k)])]
        if not is_node and not removed:
            raise KeyError(f"lab has no node or link {name}")
        if removed:
            self.data["link"] = [link for link in links if link not in removed]
        return self

    def copy(self) -> Lab:
        """An independent copy."""
        return copy.deepcopy(self)

    def __repr__(self) -> str:
        sizes = [f"{key}: {len(value)}" for key, value in self.data.items() if key != "lab"]
        return f"Lab({', '.join([repr(self.name), *sizes])})"

    @contextlib.contextmanager
    def _file(self, extra: Iterable[Section] = ()) -> Iterator[tuple[str, str | None]]:
        """A file of the lab in its folder while the context lasts: its path and its text.

        A lab that is as its file says is that file: errors then name its lines, and the text is
        None.
        """
        lab = self.copy().add(*extra) if extra else self
        folder = Path(self.folder).absolute()
        if lab._original:
            path, text, data = lab._original
            is_same = path.is_file() and path.read_text(encoding="utf-8") == text
            if is_same and data == lab.data and path.parent == folder:
                yield str(path), None
                return
        text = lab.to_toml()
        keys: Any = {"prefix": ".netarium-", "suffix": ".toml", "dir": folder}
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", **keys) as file:
            with _binary.guarded('rm -f -- "$0"', file.name):
                file.write(text)
                file.flush()
                yield file.name, text

    def check(self) -> list[dict[str, Any]]:
        """Checks the lab. Returns an object for each run of it, with the numbers of its parts.

        Raises LabError with all errors of the lab.
        """
        with self._file() as (path, text):
            (found,) = _binary.call("check", path, text=text)
            return list(found["plans"])

    @overload
    def sim(self, *, seeds: None = None, **keys: Unpack[RunKeys]) -> Run: ...
    @overload
    def sim(self, *, seeds: int, **keys: Unpack[RunKeys]) -> RunSet: ...
    def sim(self, *, seeds: int | None = None, **keys: Unpack[RunKeys]) -> Run | RunSet:
        """Runs the lab on the virtual clock.

        Arguments:
            seeds: Number of consecutive seeds; the result is then a set of runs.
            flows: Flows in addition to those of the lab (also other sections).
            duration, seed, name: Override those of the lab.
            set: Overrides fields, for example `{"link.core.delay": "10 ms"}`.
            runs: Folder for run folders; default: `runs`.
            check: Raise an error if the run did not pass.

        Raises LabError, CapabilityError, RunInterrupted (Ctrl-C: it has the results so far), and
        with `check` UntrustedRunError, ProgramError or FailedRunError.
        """
        return self._start("sim", "--seeds", seeds, **keys)

    @overload
    def run(self, *, repeat: None = None, **keys: Unpack[RunKeys]) -> Run: ...
    @overload
    def run(self, *, repeat: int, **keys: Unpack[RunKeys]) -> RunSet: ...
    def run(self, *, repeat: int | None = None, **keys: Unpack[RunKeys]) -> Run | RunSet:
        """Runs the lab on the wall clock, with its programs, until its end.

        `repeat` is the number of runs, one after the other; the result is then a set of runs.
        Other arguments and errors are those of `sim`.
        """
        return self._start("run", "--repeat", repeat, **keys)

    def _start(
        self, subcommand: str, many: str, count: int | None, check: bool = False, **keys: Any
    ) -> Run | RunSet:
        words = [] if count is None else [many, str(count)]
        result, text = self._command(subcommand, *words, **keys)
        return _run.opened(result, count is not None, check, text)

    def _command(
        self, *words: str, flows: Iterable[Section] = (), runs: PathLike = "runs", **settings: Any
    ) -> tuple[_binary.Result, str | None]:
        """Runs a subcommand that starts the lab. The result, and the text of `_file`."""
        for name in settings.keys() - Overrides.__annotations__.keys():
            raise TypeError(f"{words[0]}() has no argument {name!r}")
        options = ["--json", "--quiet", "--runs", os.fspath(runs), *overrides(**settings)]
        with self._file(list(flows)) as (path, text):
            return _binary.wait(_binary.start([*words, *options, path])), text

    def up(
        self, *, runs: PathLike = "runs", keep: bool = False, **settings: Unpack[Overrides]
    ) -> _up.RunningLab:
        """Starts the lab on the wall clock; it stays up until the end of `with`, or `down()`.

        It also ends with this Python process, even if that is killed; with `keep`, it stays up.
        Returns when all programs with a `ready` condition are ready. Other arguments are those of
        `sim`. Raises LabError, CapabilityError, ProgramError if a program was not ready in time.
        """
        result, text = self._command("up", runs=runs, **settings)
        started = [found for found in result.objects if found["schema"] == "netarium.up/1"]
        labs = [_up.RunningLab(found, keep) for found in started]
        if result.exit_code:
            # An interrupt can arrive when the lab is up already.
            for lab in labs:
                lab.down()
            _run.opened(result, False, True, text)
        return labs[0]
