"""Functions of a caller in a simulation: checked, and in the form that the engines ask for."""

from __future__ import annotations

import inspect
import json
import operator
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
#: More packets at one moment are those of a source that forgot to go on.
_AT_ONCE = 100_000
#: What a packet can carry: its number and time, and a datagram of the overlay.
_BYTES = (16, 1392)


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
    for ends, model in _pairs("losses", losses, "{('a', 'b'): function}"):
        called = f"losses[{ends!r}]"
        if not isinstance(ends, tuple) or len(ends) != 2:
            raise ValueError(f"{called}: expected a pair of nodes, like ('a', 'b')")
        rules.append((*map(str, ends), _rule(called, _made(called, model, _random(seed, called)))))
    streams = []
    for flow, model in _pairs("traffic", traffic, "{'a-b': function}"):
        if not isinstance(flow, str):
            raise ValueError(f"traffic[{flow!r}]: expected the name of a flow, like 'a-b'")
        streams.append((flow, _streams(seed, flow, model)))
    every_ns = round(number("every_s", every_s, _DAY_S) * 1e9)
    return {
        "traffic": streams,
        "losses": rules,
        "measure": None if measure is None else (every_ns, _look(measure, measures)),
        "packets": bool(packets),
    }


def _pairs(called: str, given: Any, like: str) -> Iterable[tuple[Any, Any]]:
    if given is None:
        return ()
    if not isinstance(given, Mapping):
        raise TypeError(f"{called}: expected a dictionary, like {like}")
    return given.items()


def _callable(called: str, function: Any) -> Any:
    if not callable(function):
        raise TypeError(f"{called}: expected a function, not {type(function).__name__}")
    return function


def _made(called: str, model: Any, source: Random) -> Any:
    """What a model gives for a generator."""
    try:
        inspect.signature(_callable(called, model)).bind(source)
    except TypeError as error:
        if not callable(model):
            raise
        raise TypeError(f"{called}: expected a function of one random.Random: {error}") from None
    except ValueError:
        # Built-in functions may have no signature.
        pass
    return model(source)


def _random(seed: int, what: str) -> Random:
    # A text is spread over the whole state, whatever the interpreter's hashes are.
    return Random(f"{seed} {what}")


def _rule(called: str, rule: Any) -> Callable[[float, int], bool]:
    _callable(f"what {called} gives", rule)

    def is_lost(at_s: float, size: int) -> bool:
        lost = rule(at_s, size)
        # A truth of numpy is one by another name.
        if isinstance(lost, bool) or type(lost).__name__ in ("bool_", "bool"):
            return bool(lost)
        raise TypeError(
            f"{called}: the rule gave {lost!r}: expected True or False; for a chance, write "
            "`source.random() < 0.01`"
        )

    return is_lost


def _streams(
    seed: int, flow: str, model: Traffic
) -> Callable[[int], Iterator[tuple[int, int | None]]]:
    called = f"traffic[{flow!r}]"
    _callable(called, model)

    def stream(n: int) -> Iterator[tuple[int, int | None]]:
        packets = _made(called, model, _random(seed, f"{called} {n}"))
        if not isinstance(packets, Iterable):
            raise TypeError(
                f"{called} gave {type(packets).__name__}: expected moments; is there a `yield`?"
            )
        return _packets(called, packets)

    return stream


def _packets(called: str, packets: Iterable[Packet]) -> Iterator[tuple[int, int | None]]:
    last, at_once = 0.0, 0
    for packet in packets:
        at_s, size = packet, None
        if isinstance(packet, tuple):
            if len(packet) != 2:
                raise ValueError(f"{called}: {packet!r}: expected a moment, or (moment, bytes)")
            at_s, size = packet
        if not isinstance(at_s, (int, float)) and not hasattr(at_s, "__float__"):
            raise ValueError(f"{called}: {packet!r}: expected a moment, or (moment, bytes)")
        at_s = number(f"{called}: a moment", at_s)
        if at_s < last:
            raise ValueError(f"{called}: {at_s} s comes after {last} s: yield moments in order")
        at_once = at_once + 1 if at_s == last else 0
        if at_once > _AT_ONCE:
            raise ValueError(f"{called}: {_AT_ONCE} packets at {at_s} s: does the moment grow?")
        last = at_s
        if at_s > _DAY_S:
            # No scenario is longer.
            return
        yield round(at_s * 1e9), None if size is None else _size(called, size)


def _size(called: str, size: Any) -> int:
    try:
        whole = int(size) if isinstance(size, float) and size.is_integer() else operator.index(size)
    except TypeError:
        whole = -1
    if isinstance(size, bool) or not _BYTES[0] <= whole <= _BYTES[1]:
        raise ValueError(
            f"{called}: {size!r} bytes: expected a whole number from {_BYTES[0]} to {_BYTES[1]}"
        )
    return whole


def _look(
    measure: Callable[[Moment], Any], measures: list[dict[str, Any]]
) -> Callable[[str], None]:
    _callable("measure", measure)

    def look(text: str) -> None:
        moment = Moment(**json.loads(text))
        at_s = moment.at_s
        measured = measure(moment)
        if measured is None:
            return
        if not isinstance(measured, Mapping):
            measured = {"value": measured}
        if "at_s" in measured:
            raise ValueError("measure: `at_s` is the moment itself: give another name")
        for name, value in measured.items():
            is_plain = value is None or isinstance(value, (str, bool))
            if not is_plain and not hasattr(value, "__float__"):
                raise TypeError(f"measure: {name}={value!r}: expected a number")
        measures.append({"at_s": at_s, **measured})

    return look
