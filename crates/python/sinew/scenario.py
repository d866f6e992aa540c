"""Scenarios: networks with traffic and faults, read and simulated."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _sinew, _toml
from ._custom import LossModel, Moment, Traffic, parts
from ._units import number, whole_seed
from .result import Result

if TYPE_CHECKING:
    import networkx


class Scenario:
    """A network, its traffic and its faults, checked. It does not change.

    ``docs/scenario.md`` of the repository has every key. Times count from the moment when the network
    has settled.
    """

    def __init__(
        self, toml: str, name: str = "scenario", files: Mapping[str, str] | None = None
    ) -> None:
        """Reads ``toml``, the text of a scenario file; errors call it ``name``.

        ``files`` are the texts of the files that it names, such as measured paths. Without them they are
        read from the folder of ``name``.
        """
        self._toml = toml
        self._called = name
        self._core = _sinew.Scenario.parse(name, toml, None if files is None else dict(files))

    @staticmethod
    def from_toml(source: str | os.PathLike[str]) -> Scenario:
        """Reads a scenario file, or the text of one. A text has a line break; a path has none.

        Raises ``ValueError`` with file, line, key and what was expected.
        """
        if isinstance(source, str) and "\n" in source:
            return Scenario(source)
        path = Path(source)
        return Scenario(path.read_text(encoding="utf-8"), str(path))

    @staticmethod
    def from_dict(tables: Mapping[str, Any]) -> Scenario:
        """Reads a dictionary with the tables of a scenario file: ``scenario``, ``node``, ``link``, …

        >>> Scenario.from_dict({"scenario": {"name": "one", "duration": "1s"}, "node": [{"name": "a"}]})
        <sinew.Scenario one: 1 nodes, 0 links, 0 flows, 1 s>
        """
        return Scenario(_toml.write(tables), "dict")

    @staticmethod
    def from_networkx(
        graph: networkx.Graph,
        *,
        duration: str,
        flows: list[tuple[Any, Any]] | list[dict[str, Any]] = [],  # noqa: B006
        name: str = "graph",
        delay: str | None = None,
        **scenario: Any,
    ) -> Scenario:
        """Takes nodes and links from a networkx graph.

        An edge's attributes are the words of a path: ``delay_ms``, ``loss_pct``, ``rate_bps`` and so on
        (see :meth:`Builder.link`). ``delay`` names another attribute that has the one-way delay in
        milliseconds, such as ``"weight"``; attributes that are not words of a path are then ignored. Of
        a directed graph, the edge back gives the other direction.
        """
        from .builder import Builder

        builder = Builder(name, duration=duration, **scenario)
        builder.graph(graph, delay=delay)
        for flow in flows:
            if isinstance(flow, Mapping):
                builder.flow(**{str(key): value for key, value in flow.items()})
            else:
                builder.flow(str(flow[0]), str(flow[1]))
        return builder.build()

    @property
    def toml(self) -> str:
        """The text of the scenario file, for ``sinew sim run`` and ``sinew lab up``."""
        return self._toml

    @property
    def files(self) -> dict[str, str]:
        """The texts of the files that it names, such as measured paths."""
        return self._core.files

    @property
    def name(self) -> str:
        """The scenario's name."""
        return self._core.name

    @property
    def about(self) -> str:
        """What the file says for its readers."""
        return self._core.about

    @property
    def seed(self) -> int:
        """The seed if ``run`` is given none."""
        return self._core.seed

    @property
    def duration_s(self) -> float:
        """How long it lasts, in seconds."""
        return self._core.duration_s

    @property
    def nodes(self) -> list[str]:
        """The names of the nodes."""
        return self._core.nodes

    @property
    def links(self) -> list[tuple[str, str]]:
        """The two ends of each link."""
        return self._core.links

    @property
    def flows(self) -> list[str]:
        """The names of the flows."""
        return self._core.flows

    def run(
        self,
        seed: int | None = None,
        *,
        progress: Callable[[float], object] | None = None,
        traffic: Mapping[str, Traffic] | None = None,
        losses: Mapping[tuple[str, str], LossModel] | None = None,
        measure: Callable[[Moment], Any] | None = None,
        every_s: float = 1.0,
        packets: bool = False,
    ) -> Result:
        """Simulates it with the production nodes, in virtual time. Equal seeds give equal results.

        ``progress`` is called about twenty times a second with the share that is done, from 0 to 1.
        Other threads of Python go on meanwhile, and Ctrl-C raises ``KeyboardInterrupt``.

        Three parts of the simulation can be functions of yours. The engines wait for each call, so such
        a run is slow: some 100 000 calls take a second. An exception that any of them raises ends the run.

        ``traffic``: for the name of a flow, a function that takes a ``random.Random`` and gives an iterable:
        when to send in seconds after the flow's start, or pairs of that and the bytes of payload. The
        flow's own pattern is not used. Each stream of a flow has a generator of its own.

        ``losses``: for a pair of nodes, a function that takes a ``random.Random`` and gives a function of
        ``(at_s, size)``: true if a packet is lost in the direction from the first node to the second. ``size`` is
        its bytes on the link without those of UDP and IP. The losses of the link's path are not used. The
        rule also decides about the nodes' own packets, and about those while the network settles, when
        ``at_s`` is negative: if it loses all of them, the link never comes up. Flows with ``direct`` have a
        path of their own, to which it does not apply.

        ``measure``: a function of a :class:`Moment`, called each ``every_s`` seconds of the scenario. What it
        returns, a dictionary or a number, becomes a row of :attr:`Result.measures`.

        ``packets=True`` keeps what became of each packet: 16 bytes each.
        """
        seed = self.seed if seed is None else whole_seed(seed)
        if progress is not None and not callable(progress):
            raise TypeError("progress: expected a function of one number")
        measures: list[dict[str, Any]] = []
        wanted = parts(seed, traffic, losses, measure, every_s, packets, measures)
        report, links, events, left_out, kept = self._core.run(seed, progress, wanted)
        return Result(report, json.loads(links), json.loads(events), left_out, measures, kept)

    def why(self, src: str, dst: str, **how: Any) -> dict[str, Any]:
        """Explains the path of packets from ``src`` to ``dst``: the path, others, and what decided.

        ``by``: ``expected-latency`` (default), ``latency``, ``loss``, ``hops``, ``width``, ``best``,
        ``disjoint``. ``deadline_ms`` (100): what arrives later is lost. ``runners_up`` (2): other paths
        to show. ``at_s`` (0): the moment of the scenario; all faults up to then have happened.
        """
        return json.loads(self._core.why(src, dst, question(**how)))

    def whatif(
        self, edits: str, src: str | None = None, dst: str | None = None, **how: Any
    ) -> dict[str, Any]:
        """Predicts how paths change: ``"C-D loss=8%"``, ``"C-D down, fra down"``.

        For one pair of nodes or, without it, for all whose path changes. The rest is as in :meth:`why`.
        """
        if (src is None) != (dst is None):
            raise ValueError("name both ends, or none for all pairs")
        return json.loads(self._core.whatif(edits, src, dst, question(**how)))

    def __reduce__(self) -> tuple[type[Scenario], tuple[str, str, dict[str, str]]]:
        # With its files: another machine does not have them.
        return Scenario, (self._toml, self._called, self.files)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Scenario):
            return NotImplemented
        return self._toml == other._toml and self.files == other.files

    def __hash__(self) -> int:
        return hash(self._toml)

    def __repr__(self) -> str:
        nodes, links, flows = len(self.nodes), len(self.links), len(self.flows)
        return (
            f"<sinew.Scenario {self.name}: {nodes} nodes, {links} links, {flows} flows, "
            f"{self.duration_s:g} s>"
        )


def question(
    *,
    by: str = "expected-latency",
    deadline_ms: float = 100.0,
    runners_up: int = 2,
    at_s: float = 0.0,
) -> dict[str, Any]:
    """How a question about paths is meant, checked."""
    return {
        "class": by,
        "deadline_ms": number("deadline_ms", deadline_ms, 86_400e3),
        "runners_up": int(number("runners_up", runners_up)),
        "at_s": number("at_s", at_s),
    }
