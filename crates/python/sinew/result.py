"""What a simulation has come to."""

from __future__ import annotations

import html
import json
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas
    import pyarrow

_TABLES = ("flows", "links", "events", "measures", "packets")

#: What is shown of a flow in a notebook: the key, and its title.
_COLUMNS = (
    ("name", "flow"),
    ("sent", "sent"),
    ("lost_pct", "lost %"),
    ("late_pct", "late %"),
    ("delay_ms.p50", "p50 ms"),
    ("delay_ms.p95", "p95 ms"),
    ("delay_ms.p99", "p99 ms"),
    ("longest_gap_ms", "longest gap ms"),
)


class Result:
    """The report of a simulation, its links and events, and what was measured on the way."""

    def __init__(
        self,
        report: str,
        links: list[dict[str, Any]],
        events: list[dict[str, Any]],
        events_left_out: int = 0,
        measures: list[dict[str, Any]] | None = None,
        packets: Sequence[tuple[str, int, str, bytes, bytes]] = (),
    ) -> None:
        """From the JSON of the report, the tables beside it, and columns of packets."""
        self._json = report
        self._report: dict[str, Any] = json.loads(report)
        self._links = links
        self._events = events
        self._left_out = events_left_out
        self._measures = measures or []
        self._packets = packets

    @property
    def json(self) -> str:
        """The report as the JSON that ``docs/scenario.md`` documents. Equal runs have equal texts."""
        return self._json

    @property
    def report(self) -> dict[str, Any]:
        """The same as a dictionary."""
        return self._report

    @property
    def seed(self) -> int:
        """The seed that decided everything random."""
        return self._report["seed"]

    @property
    def flows(self) -> list[dict[str, Any]]:
        """A dictionary for each flow: ``sent``, ``lost_pct``, ``delay_ms`` and so on."""
        return self._report["flows"]

    @property
    def overlay(self) -> dict[str, Any]:
        """Sums over all nodes: ``wire_bytes``, ``recovered``, ``dropped`` and so on."""
        return self._report["overlay"]

    @property
    def links(self) -> list[dict[str, Any]]:
        """A dictionary for each direction of a link, at the end.

        ``from``, ``to``, ``state``, ``rtt_ms`` (milliseconds), ``loss_pct`` (percent), ``wire_bytes``,
        and packets of the real-time lane: ``originals``, ``retransmissions``, ``repairs``.
        """
        return self._links

    @property
    def events(self) -> list[dict[str, Any]]:
        """What happened to links and routes: ``at_s`` (seconds), ``node``, ``event``, ``peer``, ``why``."""
        return self._events

    @property
    def events_left_out(self) -> int:
        """Events after the first 200 000, which are not kept."""
        return self._left_out

    @property
    def measures(self) -> list[dict[str, Any]]:
        """What the run's ``measure`` gave: ``at_s`` (seconds), and its own keys or ``value``."""
        return self._measures

    @property
    def packets(self) -> list[dict[str, Any]]:
        """A dictionary for each packet of a run with ``packets=True``: stream by stream, in the order of sending.

        ``flow``, ``stream`` (its number in the flow), ``receiver``, ``sent_s`` (seconds) and ``delay_ms``
        (milliseconds), which is None if the packet never came, and no number in a data frame. TCP and bulk have no packets here. For
        many packets use :meth:`to_pandas` or :meth:`to_arrow`.
        """
        columns = self._columns()
        columns["delay_ms"] = [None if delay != delay else delay for delay in columns["delay_ms"]]
        return [dict(zip(columns, row)) for row in zip(*columns.values())]

    def _columns(self) -> dict[str, Any]:
        """The packets by column; the delay of what never came is no number."""
        names: tuple[list[str], list[int], list[str]] = ([], [], [])
        sent, delays = array("d"), array("d")
        for flow, stream, receiver, sent_s, delay_ms in self._packets:
            sent.frombytes(sent_s)
            delays.frombytes(delay_ms)
            for name, value in zip(names, (flow, stream, receiver)):
                name += [value] * (len(sent_s) // 8)
        keys = ("flow", "stream", "receiver", "sent_s", "delay_ms")
        return dict(zip(keys, (*names, sent, delays)))

    def rows(self, table: str = "flows") -> list[dict[str, Any]]:
        """A table without nested tables: ``delay_ms.p95`` is a key.

        The tables are ``flows``, ``links``, ``events``, ``measures`` and ``packets``.
        """
        if table not in _TABLES:
            raise ValueError(f"no table {table!r}: there are {', '.join(_TABLES)}")
        return [_flat(row) for row in getattr(self, table)]

    def to_pandas(self, table: str = "flows") -> pandas.DataFrame:
        """A table of :meth:`rows` as a data frame. Needs pandas."""
        try:
            import pandas
        except ImportError as error:
            raise ImportError("to_pandas needs pandas: pip install pandas") from error
        return pandas.DataFrame(self._columns() if table == "packets" else self.rows(table))

    def to_arrow(self, table: str = "flows") -> pyarrow.Table:
        """A table of :meth:`rows` as an Arrow table. Needs pyarrow."""
        try:
            import pyarrow
            import pyarrow.compute
        except ImportError as error:
            raise ImportError("to_arrow needs pyarrow: pip install pyarrow") from error
        if table != "packets":
            rows = self.rows(table)
            names = dict.fromkeys(name for row in rows for name in row)
            return pyarrow.table({name: [row.get(name) for row in rows] for name in names})
        columns = self._columns()
        delays = pyarrow.array(columns["delay_ms"])
        never = pyarrow.compute.is_nan(delays)
        columns["delay_ms"] = pyarrow.compute.if_else(never, None, delays)
        return pyarrow.table(columns)

    def __repr__(self) -> str:
        name, flows = self._report["scenario"], len(self.flows)
        return f"<sinew.Result {name}: seed {self.seed}, {flows} flows>"

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(title)}</th>" for _, title in _COLUMNS)
        lines = [
            "".join(f"<td>{html.escape(_shown(row.get(key)))}</td>" for key, _ in _COLUMNS)
            for row in self.rows()
        ]
        body = "".join(f"<tr>{line}</tr>" for line in lines)
        return f"<table><tr>{head}</tr>{body}</table>"


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, dict):
            flat.update({f"{key}.{inner}": deep for inner, deep in value.items()})
        else:
            flat[key] = value
    return flat


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}" if isinstance(value, float) else str(value)
