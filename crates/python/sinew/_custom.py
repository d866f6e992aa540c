"""Functions of a caller in a simulation: checked, and in the form that the engines ask for."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from random import Random
from typing import Any

from ._units import number

#: When to send, in seconds after the flow's start; or that and the bytes of payload.
Packet = float | tuple[float, int]
#: Makes the packets of one stream, given a generator of random numbers.
Traffic = Callable[[Random], Iterable[Packet]]
#: Makes a rule, given a generator: of a moment in seconds and a packet's bytes, whether it is lost.
LossModel = Callable[[Random], Callable[[float, int], bool]]

_DAY_S = 86_400.0


class Moment:
    """A simulation at a moment, as ``measure`` is shown it."""

    def __init__(
        self, at_s: float, links: list[dict[str, Any]], flows: list[dict[str, Any]]
    ) -> None:
        """From the tables of links and flows."""
        #: The scenario's time in seconds.
        self.at_s = at_s
        #: A dictionary for each direction of a link: the keys of :attr:`Result.links`.
        self.links = links
        #: For each flow by its name: ``sent``, ``received``, ``in_time`` (packets) and ``bulk_bytes``.
        self.flows = {flow.pop("name"): flow for flow in flows}

    def link(self, from_: str, to: str) -> dict[str, Any]:
        """The direction of a link from one node to another."""
        for link in self.links:
            if (link["from"], link["to"]) == (from_, to):
                return link
        raise KeyError(f"there is no link from {from_!r} to {to!r}")

    def __repr__(self) -> str:
        return (
            f"<sinew.Moment at {self.at_s:g} s: {len(self.links)} links, {len(self.flows)} flows>"
        )


def parts(
    seed: int,
    traffic: Mapping[str, Traffic] | None,
    losses: Mapping[tuple[str, str], LossModel] | None,
    measure: Callable[[Moment], Any] | None,
    every_s: float,
    packets: bool,
    measures: list[dict[str, Any]],
) -> dict[str, Any]:
    """What the core takes; what ``measure`` gives is appended to ``measures``."""
    rules = []
    for ends, model in (losses or {}).items():
        if not isinstance(ends, tuple) or len(ends) != 2:
            raise ValueError(f"losses[{ends!r}]: expected a pair of nodes, like ('a', 'b')")
        called = f"losses[{ends!r}]"
        rule = _callable(called, model)(_random(seed, called))
        rules.append((*map(str, ends), _callable(f"what {called} gives", rule)))
    return {
        "traffic": [(flow, _streams(seed, flow, model)) for flow, model in (traffic or {}).items()],
        "losses": rules,
        "measure": None if measure is None else (_span(every_s), _look(measure, measures)),
        "packets": bool(packets),
    }


def _callable(called: str, function: Any) -> Any:
    if not callable(function):
        raise TypeError(f"{called}: expected a function, not {type(function).__name__}")
    return function


def _random(seed: int, what: str) -> Random:
    # A text is spread over the whole state, whatever the interpreter's hashes are.
    return Random(f"{seed} {what}")


def _span(every_s: Any) -> int:
    return round(number("every_s", every_s, _DAY_S) * 1e9)


def _streams(
    seed: int, flow: str, model: Traffic
) -> Callable[[int], Iterator[tuple[int, int | None]]]:
    _callable(f"traffic[{flow!r}]", model)
    return lambda n: _packets(flow, model(_random(seed, f"traffic[{flow!r}] {n}")))


def _packets(flow: str, packets: Iterable[Packet]) -> Iterator[tuple[int, int | None]]:
    last = 0.0
    for packet in packets:
        at_s, size = packet if isinstance(packet, tuple) else (packet, None)
        at_s = number(f"traffic[{flow!r}]: a moment", at_s)
        if at_s < last:
            raise ValueError(
                f"traffic[{flow!r}]: {at_s} s comes after {last} s: yield moments in order"
            )
        if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 0):
            raise ValueError(f"traffic[{flow!r}]: {size!r} bytes: expected a whole number")
        last = at_s
        if at_s > _DAY_S:
            # No scenario is longer.
            return
        yield round(at_s * 1e9), size


def _look(
    measure: Callable[[Moment], Any], measures: list[dict[str, Any]]
) -> Callable[[str], None]:
    _callable("measure", measure)

    def look(text: str) -> None:
        moment = Moment(**json.loads(text))
        measured = measure(moment)
        if isinstance(measured, Mapping):
            measures.append({"at_s": moment.at_s, **measured})
        elif measured is not None:
            if isinstance(measured, float) and math.isnan(measured):
                measured = None
            measures.append({"at_s": moment.at_s, "value": measured})

    return look
