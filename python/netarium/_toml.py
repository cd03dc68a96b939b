"""Writes and reads TOML."""

import contextlib
import importlib
import json
import re
from typing import Any, Mapping

BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def value(of: Any) -> str:
    """A value; tables are inline."""
    if isinstance(of, (bool, str)):
        # As in JSON, which does not escape DEL.
        return json.dumps(of, ensure_ascii=False).replace("\x7f", "\\u007F")
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


def setting(field: str, of: Any) -> str:
    """The text `FIELD=VALUE` for `--set`: texts are bare, other values TOML."""
    return f"{field}={of if isinstance(of, str) else value(of)}"


def write(data: Mapping[str, Any]) -> str:
    """A lab file; `data` has its sections."""
    tables: list[tuple[str, Mapping[str, Any]]] = []
    for name, item in data.items():
        if name == "node":
            tables += [(f"[node.{key(node)}]", keys) for node, keys in item.items()]
        elif isinstance(item, Mapping):
            tables.append((f"[{key(name)}]", item))
        elif isinstance(item, list):
            tables += [(f"[[{key(name)}]]", keys) for keys in item]
    lines: list[str] = []
    for heading, keys in tables:
        lines += [heading, *(f"{key(name)} = {value(item)}" for name, item in keys.items()), ""]
    return "\n".join(lines)


def reader() -> Any:
    """The function `loads` of the first reader that this Python has."""
    for name in ("tomllib", "tomli", "pip._vendor.tomli"):
        with contextlib.suppress(ImportError):
            return importlib.import_module(name).loads
    raise ImportError("Python 3.10 has no reader of TOML; install one: pip install tomli")
