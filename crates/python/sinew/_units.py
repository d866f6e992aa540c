"""Numbers with units, checked before they become the words of a scenario."""

from __future__ import annotations

import difflib
import math
import operator
from collections.abc import Iterable, Mapping
from typing import Any


def number(name: str, value: Any, most: float = math.inf) -> float:
    """``value`` as a number from 0 to ``most``; a ``ValueError`` names it otherwise."""
    expected = "a number from 0 up" if most == math.inf else f"a number from 0 to {most:g}"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        # numpy's numbers convert, texts do not.
        if isinstance(value, (bool, str, bytes)) or not hasattr(value, "__float__"):
            raise ValueError(f"{name}={value!r}: expected {expected}")
        value = float(value)
    if isinstance(value, int) and abs(value) > 2**63:
        # More than a number of the machine holds.
        value = math.inf
    if not math.isfinite(value) or not 0 <= value <= most:
        raise ValueError(f"{name}={value!r}: expected {expected}")
    return value


def whole_seed(seed: Any) -> int:
    """``seed`` as the core takes it; a ``ValueError`` otherwise."""
    try:
        whole = -1 if isinstance(seed, bool) else operator.index(seed)
    except TypeError:
        whole = -1
    if not 0 <= whole < 1 << 64:
        raise ValueError(f"seed={seed!r}: expected a whole number from 0 to {(1 << 64) - 1}")
    return whole


def plain(value: float) -> str:
    """The number without an exponent and without a needless fraction."""
    text = f"{value:.9f}".rstrip("0").rstrip(".")
    return text or "0"


#: Keywords with a unit: the word of a path, what follows the number, the most it may be.
_WITH_UNIT: dict[str, tuple[str, str, float]] = {
    "delay_ms": ("delay", "ms", 86_400e3),
    "jitter_ms": ("jitter", "ms", 86_400e3),
    "loss_pct": ("loss", "%", 100),
    "burst_pct": ("burst", "%", 100),
    "duplicate_pct": ("duplicate", "%", 100),
    "rate_bps": ("rate", "bit", math.inf),
    "queue_pkts": ("queue", "", math.inf),
    "mtu_bytes": ("mtu", "", math.inf),
}
#: Words that take a text, as docs/scenario.md has them.
_WITH_TEXT = ("delay", "jitter", "loss", "burst", "gilbert", "trace", "duplicate", "rate", "queue")
#: Words that stand alone.
_ALONE = ("reorder", "outage", "clean")

PATH_WORDS: tuple[str, ...] = (*_WITH_UNIT, *_WITH_TEXT, "mtu", *_ALONE)


def path(words: Mapping[str, Any]) -> str:
    """The words of a path, from keywords: ``delay="10ms"``, ``loss_pct=5``, ``reorder=True``."""
    parts = []
    for name, value in words.items():
        if value is None or (name in _ALONE and value is False):
            continue
        if name in _WITH_UNIT:
            word, unit, most = _WITH_UNIT[name]
            parts.append(f"{word}={_of_unit(name, value, unit, most)}")
        elif name in _ALONE and value is True:
            parts.append(name)
        elif name == "outage" or name in _WITH_TEXT or name == "mtu":
            parts.append(f"{name}={_text(name, value)}")
        else:
            if name in _ALONE:
                raise ValueError(f"{name}={value!r}: expected True or False")
            raise ValueError(f"no such word of a path: {name!r}; {meant(name, PATH_WORDS)}")
    return " ".join(parts) or "clean"


def _of_unit(name: str, value: Any, unit: str, most: float) -> str:
    checked = number(name, value, most)
    # Whole bits, packets and bytes.
    return (plain(checked) if unit in ("ms", "%") else str(round(checked))) + unit


def _text(name: str, value: Any) -> str:
    if name in ("queue", "mtu") and isinstance(value, int) and not isinstance(value, bool):
        return str(round(number(name, value)))
    if name in ("loss", "burst", "duplicate") and isinstance(value, (int, float)):
        return plain(number(name, value, 1) * 100) + "%"
    if not isinstance(value, str):
        raise ValueError(f'{name}={value!r}: write a text with a unit, like "20ms" or "5%"')
    if not value.strip() or " " in value.strip():
        raise ValueError(f"{name}={value!r}: expected one word")
    return value.strip()


def meant(name: str, known: Iterable[str]) -> str:
    """A sentence with the nearest of the known names, or all of them."""
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f"did you mean `{near[0]}`?" if near else f"there are {', '.join(known)}"
