"""Sections of a lab file as tables of keys, and the names of nodes and links."""

import re
from typing import Any, ClassVar, Mapping, TypeVar

S = TypeVar("S", bound="Section")
Quantities = Mapping[str, str]

UNIT_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}


def without_unit(name: str, value: Any, example: str) -> TypeError:
    return TypeError(
        f'{name}={value!r}: a bare number has no unit; write a text, for example {name}="{example}"'
    )


def seconds(name: str, value: str) -> float:
    """The seconds of a time such as `10 ms`; an error names the argument."""
    if not isinstance(value, str):
        raise without_unit(name, value, "10 s")
    found = re.fullmatch(r"\s*([0-9.]+)\s*(\S+)\s*", value)
    if not found or found[2] not in UNIT_SECONDS:
        raise ValueError(f'{name}={value!r} is not a time; write for example {name}="10 s"')
    return float(found[1]) * UNIT_SECONDS[found[2]]


def given_keys(arguments: Mapping[str, Any], quantities: Quantities) -> dict[str, Any]:
    """The keys of the arguments that have a value; `from_` stands for the key `from`."""
    found = {}
    for name, value in arguments.items():
        key = name.rstrip("_")
        if value is None or name in ("self", "__class__"):
            continue
        if key in quantities and isinstance(value, (int, float)) and not isinstance(value, bool):
            raise without_unit(name, value, quantities[key])
        found[key] = value
    return found


def link_name(link: Mapping[str, Any]) -> str:
    """The name of a link, by default that of its ends."""
    return str(link.get("name", "-".join(link["ends"])))


class Node(str):
    """The name of a node; it can be used wherever a name is expected."""


class Link(str):
    """The name of a link; it can be used wherever a name is expected."""


class Section(dict[str, Any]):
    """A section of a lab file: a dictionary from keys to values."""

    _quantities: ClassVar[Quantities] = {}
    _key: ClassVar[str] = ""

    @classmethod
    def _of(cls: type[S], arguments: Mapping[str, Any]) -> S:
        section = cls.__new__(cls)
        section._fill(arguments)
        return section

    def _fill(self, arguments: Mapping[str, Any]) -> None:
        self.update(given_keys(arguments, self._quantities))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({dict.__repr__(self)})"


class Sections:
    """The sections of a lab."""

    data: dict[str, Any]
    """The lab file as dictionaries and lists, as a TOML reader returns it."""

    def __init__(self) -> None:
        self.data = {}

    def _append(self, key: str, kind: type[S], arguments: Mapping[str, Any]) -> S:
        section = kind._of(arguments)
        self.data.setdefault(key, []).append(section)
        return section

    def _put(self, key: str, kind: type[S], arguments: Mapping[str, Any]) -> S:
        section = self.data[key] = kind._of(arguments)
        return section

    def _node(self, kind: str, arguments: Mapping[str, Any], quantities: Quantities) -> Node:
        keys = given_keys(arguments, quantities)
        name = Node(keys.pop("name"))
        nodes = self.data.setdefault("node", {})
        if name in nodes:
            raise ValueError(f"the lab has a node {name} already")
        nodes[name] = keys if kind == "host" else {"kind": kind, **keys}
        return name

    def _nodes(self, kind: str, arguments: Mapping[str, Any], quantities: Quantities) -> list[Node]:
        keys = dict(arguments)
        return [self._node(kind, {**keys, "name": name}, quantities) for name in keys.pop("names")]

    def _link(self, arguments: Mapping[str, Any], quantities: Quantities) -> Link:
        keys = given_keys(arguments, quantities)
        link = Section(ends=[keys.pop("a"), keys.pop("b")], **keys)
        self.data.setdefault("link", []).append(link)
        return Link(link_name(link))
