"""Labs: their sections, and the command that checks them."""

from __future__ import annotations

import contextlib
import copy
import fnmatch
import itertools
import os
import re
import threading
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, Tuple, Union

from . import _binary, _toml
from ._errors import Diagnostic, LabError
from ._schema import Keys
from ._section import Link, Node, Section

numbers = itertools.count()


class Lab(Keys):
    """A lab: nodes, links, traffic, programs, events and expectations.

    Methods and their arguments have the names of the sections and keys of the lab file. Quantities
    are texts with a unit (`"10 ms"`). Names of nodes and links are texts too. `folder` is the
    folder of the lab, to which its files are relative; default: the working directory.
    """

    folder: Path = Path()

    @classmethod
    def from_toml(cls, source: Union[str, os.PathLike[str]]) -> Lab:
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
        return lab

    def to_toml(self) -> str:
        """The lab as the text of a lab file; `Lab.from_toml` reads it back."""
        return _toml.write(self.data)

    @property
    def name(self) -> str:
        """The name of the lab, and of its run folders."""
        return str(self.data.get("lab", {}).get("name", "lab"))

    def nodes(self, pattern: str = "*") -> List[Node]:
        """Names of the nodes that match a pattern with `*` and `?`, in the order of the lab.

        Nodes of `generate` and `import_` are not among them: only the binary knows these.
        """
        names = self.data.get("node", {})
        return [Node(name) for name in fnmatch.filter(names, pattern)]

    def links(self, pattern: str = "*") -> List[Link]:
        """Names of the links that match a pattern, as `nodes` does."""
        links = self.data.get("link", [])
        names = [link.get("name", "-".join(link["ends"])) for link in links]
        return [Link(name) for name in fnmatch.filter(names, pattern)]

    def add(self, *sections: Section) -> Lab:
        """Adds sections that were made separately, such as `nt.bulk(...)`. Returns the lab."""
        for section in sections:
            self.data.setdefault(section._key, []).append(section)
        return self

    def copy(self) -> Lab:
        """An independent copy."""
        return copy.deepcopy(self)

    def __repr__(self) -> str:
        sizes = [(key, len(value)) for key, value in self.data.items() if key != "lab"]
        parts = [f"{key}: {count}" for key, count in sizes]
        return f"Lab({self.name!r}{', ' if parts else ''}{', '.join(parts)})"

    @contextlib.contextmanager
    def _file(self, extra: Iterable[Section] = ()) -> Iterator[Tuple[str, str]]:
        """A file of the lab in its folder while the context lasts: its path and its text."""
        text = (self.copy().add(*extra) if extra else self).to_toml()
        unique = f"{os.getpid()}-{threading.get_ident()}-{next(numbers)}"
        path = self.folder.absolute() / f".netarium-{unique}.toml"
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
        try:
            yield str(path), text
        finally:
            path.unlink()

    def check(self) -> List[Dict[str, Any]]:
        """Checks the lab. Returns an object for each run of it, with the numbers of its parts.

        Raises LabError with all errors of the lab.
        """
        with self._file() as (path, text):
            (found,) = _binary.call("check", path, text=text)
            return list(found["plans"])
