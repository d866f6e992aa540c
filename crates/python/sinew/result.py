"""What a simulation has come to."""

from __future__ import annotations

import html
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas

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
    """The report of a simulation, its links and its events."""

    def __init__(
        self,
        report: str,
        links: list[dict[str, Any]],
        events: list[dict[str, Any]],
        events_left_out: int = 0,
    ) -> None:
        """From the JSON of the report and the tables beside it."""
        self._json = report
        self._report: dict[str, Any] = json.loads(report)
        self._links = links
        self._events = events
        self._left_out = events_left_out

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

    def rows(self, table: str = "flows") -> list[dict[str, Any]]:
        """``flows``, ``links`` or ``events`` without nested tables: ``delay_ms.p95`` is a key."""
        tables = {"flows": self.flows, "links": self.links, "events": self.events}
        if table not in tables:
            raise ValueError(f"no table {table!r}: there are {', '.join(tables)}")
        return [_flat(row) for row in tables[table]]

    def to_pandas(self, table: str = "flows") -> pandas.DataFrame:
        """``flows``, ``links`` or ``events`` as a data frame. Needs pandas."""
        try:
            import pandas
        except ImportError as error:
            raise ImportError("to_pandas needs pandas: pip install pandas") from error
        return pandas.DataFrame(self.rows(table))

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
