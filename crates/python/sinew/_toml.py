"""Dictionaries as the text of a scenario file."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

#: A scenario has tables in tables in lists: 4. More is a mistake, or a dictionary that holds itself.
_DEPTH_MAX = 16


def write(tables: Mapping[str, Any]) -> str:
    """The text; ``[table]`` for a dictionary, ``[[table]]`` for a list of them."""
    if not isinstance(tables, Mapping):
        raise TypeError(f"expected a dictionary, not {type(tables).__name__}")
    lines: list[str] = []
    later: list[str] = []
    for name, value in tables.items():
        if isinstance(value, Mapping):
            later += [f"\n[{_key(name)}]", *_entries(value, 1)]
        elif _is_list(value) and value and all(isinstance(one, Mapping) for one in value):
            for one in value:
                later += [f"\n[[{_key(name)}]]", *_entries(one, 2)]
        else:
            lines.append(f"{_key(name)} = {_value(value, name, 1)}")
    return "\n".join([*lines, *later]).lstrip("\n") + "\n"


def _entries(table: Mapping[str, Any], depth: int) -> list[str]:
    # What is none is not there.
    return [
        f"{_key(name)} = {_value(value, name, depth)}"
        for name, value in table.items()
        if value is not None
    ]


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray))


def _key(name: Any) -> str:
    if not isinstance(name, str):
        raise ValueError(f"{name!r}: a key is a text")
    if name and all(c.isascii() and (c.isalnum() or c in "-_") for c in name):
        return name
    return json.dumps(name)


def _value(value: Any, name: str, depth: int) -> str:
    if depth > _DEPTH_MAX:
        raise ValueError(f"{name}: more than {_DEPTH_MAX} tables in each other, or one in itself")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # TOML's basic strings are JSON's, except that DEL must be escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
    if isinstance(value, Mapping):
        inside = (f"{_key(k)} = {_value(v, name, depth + 1)}" for k, v in value.items())
        return "{" + ", ".join(inside) + "}"
    if _is_list(value):
        return "[" + ", ".join(_value(one, name, depth + 1) for one in value) + "]"
    if hasattr(value, "item") and not isinstance(value, (int, float)):
        # A number of numpy.
        value = value.item()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{name}: {value} is not a number that a scenario can have")
        return repr(value)
    raise ValueError(f"{name}: a scenario has no place for {type(value).__name__}")
