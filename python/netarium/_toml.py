"""Writes and reads TOML."""

from __future__ import annotations

import importlib
import re
from typing import Any, Callable, Iterator, Mapping

BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def escaped(c: str) -> str:
    if c in SHORT:
        return SHORT[c]
    return f"\\u{ord(c):04X}" if ord(c) < 0x20 or ord(c) == 0x7F else c


def value(of: Any) -> str:
    """A value; tables are inline."""
    if isinstance(of, bool):
        return "true" if of else "false"
    if isinstance(of, str):
        return '"' + "".join(map(escaped, of)) + '"'
    if isinstance(of, (int, float)):
        return repr(of)
    if isinstance(of, Mapping):
        pairs = [f"{key(name)} = {value(item)}" for name, item in of.items()]
        return "{ " + ", ".join(pairs) + " }" if pairs else "{}"
    if isinstance(of, (list, tuple)):
        return "[" + ", ".join(map(value, of)) + "]"
    raise TypeError(f"a lab file has no values like {of!r}")


def key(name: str) -> str:
    return name if BARE_KEY.fullmatch(name) else value(name)


def section(heading: str, keys: Mapping[str, Any]) -> Iterator[str]:
    yield heading
    yield from (f"{key(name)} = {value(item)}" for name, item in keys.items())
    yield ""


def lines(data: Mapping[str, Any]) -> Iterator[str]:
    for name, item in data.items():
        if name == "node":
            for node, keys in item.items():
                yield from section(f"[node.{key(node)}]", keys)
        elif isinstance(item, Mapping):
            yield from section(f"[{key(name)}]", item)
        elif item and isinstance(item, list):
            for keys in item:
                yield from section(f"[[{key(name)}]]", keys)


def write(data: Mapping[str, Any]) -> str:
    """A lab file; `data` has its sections."""
    return "\n".join(lines(data))


def reader() -> Callable[[str], dict[str, Any]]:
    """The function `loads` of the first reader that this Python has."""
    for name in ("tomllib", "tomli", "pip._vendor.tomli"):
        try:
            loads: Callable[[str], dict[str, Any]] = importlib.import_module(name).loads
        except ImportError:
            continue
        return loads
    raise ImportError("Python 3.10 has no reader of TOML; install one: pip install tomli")
