"""Scenarios step by step."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from . import _toml
from ._units import PATH_WORDS, path
from .scenario import Scenario

if TYPE_CHECKING:
    import networkx


class Builder:
    """Collects nodes, links, flows and faults; :meth:`build` checks them and makes the scenario.

    Every step returns the builder, so that steps can follow each other.

    >>> pair = Builder("pair", duration="10s").node("a", "b").link("a", "b", delay_ms=10, loss_pct=5)
    >>> pair.flow("a", "b", **{"class": "voice"}).build().links
    [('a', 'b')]
    """

    def __init__(self, name: str, *, duration: str, **scenario: Any) -> None:
        """``duration`` is a text with a unit. Further keys are those of ``[scenario]``: ``seed``, …

        ``settings`` is a dictionary with timers and thresholds of the nodes.
        """
        settings = scenario.pop("settings", None)
        self._tables: dict[str, Any] = {
            "scenario": {"name": name, "duration": duration, **scenario}
        }
        if settings is not None:
            self._tables["settings"] = dict(settings)
        self._nodes: set[str] = set()

    def _add(self, table: str, entry: dict[str, Any]) -> Builder:
        self._tables.setdefault(table, []).append(entry)
        return self

    def node(self, *names: str, **keys: Any) -> Builder:
        """Adds nodes. ``keys`` are those of ``[[node]]``: ``address``, ``clock_drift_ppm``, …"""
        for name in names:
            self._nodes.add(name)
            self._add("node", {"name": name, **keys})
        return self

    def link(
        self,
        a: str,
        b: str,
        path: str | None = None,
        *,
        back: str | Mapping[str, Any] | None = None,
        follows: str | os.PathLike[str] | None = None,
        follows_back: str | os.PathLike[str] | None = None,
        **words: Any,
    ) -> Builder:
        """Links two nodes.

        ``path`` has the words of a path as a text: ``"delay=10ms loss=5% burst=25%"``. Keywords do the
        same: ``delay``, ``jitter``, ``loss``, ``burst``, ``rate``, ``queue`` with texts that have a
        unit; ``delay_ms``, ``jitter_ms`` (milliseconds), ``loss_pct``, ``burst_pct``,
        ``duplicate_pct`` (percent), ``rate_bps`` (bits per second), ``queue_pkts`` (packets) and
        ``mtu_bytes`` with numbers; ``reorder`` and ``outage`` with true. ``back`` is the direction from
        ``b`` to ``a``, where it differs: a text, or a dictionary of such keywords.

        ``follows`` and ``follows_back`` name files with a measured path, one for each direction: a table
        ``.csv`` with ``at_s`` and some of ``delay_ms``, ``loss_pct``, ``rate_kbps``; a capture ``.pcap``; or
        a trace of Mahimahi. The words of the path hold where the file says nothing.
        """
        entry: dict[str, Any] = {"a": a, "b": b, "path": _path(path, words)}
        if back is not None:
            entry["back"] = back if isinstance(back, str) else _path(None, dict(back))
        for key, file in (("follows", follows), ("follows_back", follows_back)):
            if file is not None:
                entry[key] = os.fspath(file)
        return self._add("link", entry)

    def topology(self, kind: str, **keys: Any) -> Builder:
        """Makes nodes and links by a generator: ``chain``, ``ring``, ``waxman``, ``cities``, …"""
        self._tables["topology"] = {"kind": kind, **keys}
        return self

    def graph(self, graph: networkx.Graph, *, delay: str | None = None) -> Builder:
        """Adds the nodes and edges of a networkx graph; see :meth:`Scenario.from_networkx`."""
        for node in graph.nodes:
            if str(node) not in self._nodes:
                self.node(str(node))
        is_directed, done = graph.is_directed(), set()
        for a, b, data in graph.edges(data=True):
            if (a, b) in done:
                continue
            back = None
            if is_directed and graph.has_edge(b, a):
                done.add((b, a))
                back = _attributes(graph.edges[b, a], delay)
            self.link(str(a), str(b), back=back, **_attributes(data, delay))
        return self

    def flow(self, from_: str = "", to: str = "", **keys: Any) -> Builder:
        """Adds traffic between two nodes. ``keys`` are those of ``[[flow]]``: ``pattern``, ``deadline``, …

        The keys ``class`` and ``from`` are words of Python: write ``**{"class": "reliable"}``, or
        ``class_="reliable"``.
        """
        ends = {"from": from_ or keys.pop("from", ""), "to": to}
        renamed = {key.rstrip("_"): value for key, value in keys.items()}
        return self._add("flow", {**ends, **renamed})

    def fault(self, at: str, kind: str, **keys: Any) -> Builder:
        """Adds a fault at a moment: ``link-down``, ``crash``, ``partition``, … ``for_`` is the key ``for``."""
        renamed = {key.rstrip("_"): value for key, value in keys.items()}
        return self._add("fault", {"at": at, "kind": kind, **renamed})

    def measure(self, **keys: Any) -> Builder:
        """Sets what is measured: ``from_``, ``gap``, ``report``."""
        self._tables["measure"] = {key.rstrip("_"): value for key, value in keys.items()}
        return self

    @property
    def toml(self) -> str:
        """The text of the scenario file so far, not checked."""
        return _toml.write(self._tables)

    def build(self) -> Scenario:
        """The scenario. Raises ``ValueError`` for the first thing that is wrong."""
        return Scenario(self.toml, self._tables["scenario"]["name"])


def _path(text: str | None, words: Mapping[str, Any]) -> str:
    if text is None:
        return path(words)
    return f"{text} {path(words)}" if words else text


def _attributes(data: Mapping[str, Any], delay: str | None) -> dict[str, Any]:
    """The words of a path among the attributes of an edge."""
    if delay is None:
        return dict(data)
    if delay not in data:
        raise ValueError(f"an edge has no attribute {delay!r}: it has {', '.join(data) or 'none'}")
    words = {key: value for key, value in data.items() if key in PATH_WORDS and key != delay}
    return {**words, "delay_ms": data[delay]}
