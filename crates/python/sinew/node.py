"""A running node: datagrams with a deadline, streams, groups, and questions.

>>> node = sinew.Node("net/ams")                               # doctest: +SKIP
>>> with node.bind(5000, deadline_ms=100) as socket:           # doctest: +SKIP
...     socket.send("fra:5000", b"hello")
...     print(socket.recv(timeout=1).payload)

Calls wait until they are done, or until ``timeout`` seconds are over (``TimeoutError``); Ctrl-C ends a
wait. :mod:`sinew.aio` has the same for asyncio. A node that stops closes its sockets
(``ConnectionAbortedError``): open them anew when it is back.
"""

from __future__ import annotations

import atexit
import json
import math
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from . import _sinew
from ._units import number
from .scenario import question

_PROCESS = os.getpid()


@atexit.register
def _settle() -> None:
    """Lets what was written to a node on another host go before the process does."""
    # The child of a fork has no such threads, but the parent's connections.
    if os.getpid() == _PROCESS:
        _sinew.settle()


_T = TypeVar("_T")
_S = TypeVar("_S", bound="_Open")


class Datagram(NamedTuple):
    """What came, and what the node tells of it."""

    #: What was sent.
    payload: bytes
    #: Who has sent it: ``10.7.0.3:5000``.
    sender: str
    #: Seconds that were left of its deadline when it left the node; none without a deadline.
    left_s: float | None
    #: It was lost on some hop and recovered there.
    recovered: bool
    #: The group that it was sent to, or none.
    group: str | None


def wanted(
    service: str,
    deadline_ms: float,
    paths: str | None,
    priority: int | None,
    in_order: bool,
    target: float | None = None,
    repair: float | None = None,
) -> dict[str, Any]:
    """What a socket asks of the overlay, checked."""
    if priority is not None and not 0 <= priority <= 7:
        raise ValueError(f"priority={priority}: expected a number from 0 to 7")
    return {
        "service": service,
        "deadline_ms": number("deadline_ms", deadline_ms, 86_400e3),
        "paths": paths,
        "priority": priority,
        "in_order": in_order,
        "target": None if target is None else number("target", target, 1.0),
        "repair": None if repair is None else number("repair", repair, 10.0),
    }


def port_number(port: int) -> int:
    """A virtual port; 0 is any free one."""
    if not isinstance(port, int) or not 0 <= port <= 65_535:
        raise ValueError(f"port={port!r}: expected a number from 0 to 65535")
    return port


class Node:
    """A node on this host, or, by its gate, on another one."""

    def __init__(self, where: str | os.PathLike[str] | None = None) -> None:
        """``where``: the node's directory, its socket, or the file of ``sinew net clients``.

        Without it: the node that ``SINEW_NODE`` names, or the only one at hand.
        """
        named = None if where is None else os.fspath(where)
        self.core = _sinew.Node.find(named)

    def status(self) -> dict[str, Any]:
        """Everything about the node, as ``sinew status --json`` has it."""
        return self.ask({"cmd": "snapshot"})

    def links(self) -> list[dict[str, Any]]:
        """Its links: ``name``, ``state``, ``rtt_ms``, ``loss_in_pct`` and so on."""
        return self.status()["snapshot"]["links"]

    def groups(self) -> list[dict[str, Any]]:
        """The groups that it knows of: ``group``, ``members``, ``clients`` and so on."""
        return self.ask({"cmd": "groups"})["groups"]

    def ask(self, what: dict[str, Any]) -> dict[str, Any]:
        """The answer of the node's control socket."""
        return json.loads(self.core.ask(json.dumps(what)))

    def watch(self, every_s: float = 1.0) -> Iterator[dict[str, Any]]:
        """The status, again and again, ``every_s`` seconds apart."""
        pause_s = number("every_s", every_s)
        while True:
            yield self.status()
            time.sleep(pause_s)

    def why(self, src: str, dst: str, **how: Any) -> dict[str, Any]:
        """Explains a path as the node knows the network; see :meth:`Scenario.why`, without ``at_s``."""
        return json.loads(self.core.why(src, dst, question(**how)))

    def whatif(
        self, edits: str, src: str | None = None, dst: str | None = None, **how: Any
    ) -> dict[str, Any]:
        """Predicts how paths would change; see :meth:`Scenario.whatif`."""
        if (src is None) != (dst is None):
            raise ValueError("name both ends, or none for all pairs")
        return json.loads(self.core.whatif(edits, src, dst, question(**how)))

    def resolve(self, target: str) -> str:
        """``fra:5000`` as ``10.7.0.3:5000``."""
        return self.core.resolve(target)

    def bind(
        self,
        port: int = 0,
        *,
        service: str = "voice",
        deadline_ms: float = 100.0,
        paths: str | None = None,
        priority: int | None = None,
        in_order: bool = False,
        target: float | None = None,
        repair: float | None = None,
    ) -> Socket:
        """Opens a socket for datagrams at a virtual port; 0 takes any free one.

        ``service``: ``voice``, ``video``, ``bulk`` or ``best-effort``. ``deadline_ms``: for how many
        milliseconds a datagram of ``voice`` and ``video`` is of use. ``paths``: a metric
        (``expected-latency``, ``latency``, ``loss``, ``hops``), or source routing (``best``,
        ``disjoint``, ``flooding``, ``targeted``). ``priority``: 0 to 7. ``in_order``: delivered in the sender's order,
        within the deadline. ``target``: the share of its datagrams that may stay lost on a link, such as 0.0001; ``repair``:
        repair packets per packet at most, 0 for none. Without them each node does as its own settings say.
        """
        asked = wanted(service, deadline_ms, paths, priority, in_order, target, repair)
        return Socket(self.core.bind(port_number(port), asked), self)

    def connect(self, target: str, *, priority: int | None = None) -> Stream:
        """Opens a reliable stream of bytes to ``fra:5000``."""
        return Stream(self.core.connect(target, wanted("bulk", 0.0, None, priority, False)))

    def listen(self, port: int = 0) -> Listener:
        """Takes streams at a virtual port; 0 takes any free one."""
        asked = wanted("bulk", 0.0, None, None, False)
        return Listener(self.core.listen(port_number(port), asked))


#: Seconds after which a call that waits looks again.
_LOOK_S = 1.0


def listed(payloads: Sequence[bytes]) -> list[bytes]:
    """Each payload as bytes. A single one, or a number, is a mistake that would be sent as something else."""
    if isinstance(payloads, (bytes, bytearray, memoryview, str)):
        raise TypeError("payloads: expected a list of bytes; send() takes one payload")
    return [one if isinstance(one, bytes) else memoryview(one).tobytes() for one in payloads]


class _Open:
    """A descriptor that is waited for, and closed at the end of a ``with``."""

    core: Any

    def __init__(self, core: Any) -> None:
        self.core = core

    def fileno(self) -> int:
        """The descriptor, for ``select`` and event loops; -1 once closed."""
        return self.core.fileno()

    def close(self) -> None:
        """Closes it; more than once does nothing."""
        self.core.close()

    def _wait(self, what: Callable[[], _T], is_write: bool, timeout: float | None) -> _T:
        """Tries until it can be done."""
        until = None if timeout is None else time.monotonic() + number("timeout", timeout)
        while True:
            try:
                return what()
            except BlockingIOError:
                pass
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                raise TimeoutError(f"nothing within {timeout} s") from None
            poll = select.poll()
            poll.register(self.fileno(), select.POLLOUT if is_write else select.POLLIN)
            # Another thread may close it: the kernel tells nobody who waits.
            poll.poll(math.ceil(1e3 * (_LOOK_S if left is None else min(left, _LOOK_S))))

    def __enter__(self: _S) -> _S:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Socket(_Open):
    """Datagrams of one virtual port, also of groups. Several threads may use one."""

    def __init__(self, core: Any, node: Node) -> None:
        super().__init__(core)
        self._node = node
        self._kept: deque[Datagram] = deque()
        self._lock = threading.Lock()

    @property
    def local(self) -> str:
        """Its own node and port: ``10.7.0.3:5000``."""
        return f"{self.core.node}:{self.core.port}"

    @property
    def max_payload(self) -> int:
        """Bytes of the longest datagram that the network carries."""
        return self.core.max_payload

    def send(self, target: str, payload: bytes, timeout: float | None = 10.0) -> None:
        """Sends one datagram to ``fra:5000``, ``10.7.0.3:5000`` or a group."""
        self.send_batch(target, [payload], timeout)

    def send_batch(
        self, target: str, payloads: Sequence[bytes], timeout: float | None = 10.0
    ) -> None:
        """Sends datagrams together, up to 64 in a message to the node: the fast way for many."""
        to = self._node.core.resolve(target)
        ready = listed(payloads)
        sent = 0
        while sent < len(ready):
            sent += self._wait(lambda: self.core.send(to, ready, sent), True, timeout)

    def recv(self, timeout: float | None = None) -> Datagram:
        """The next datagram."""
        return self._wait(self._next, False, timeout)

    def _next(self) -> Datagram:
        with self._lock:
            if not self._kept:
                self._kept.extend(Datagram(*came) for came in self.core.recv())
            return self._kept.popleft()

    def recv_batch(self, timeout: float | None = None) -> list[Datagram]:
        """Datagrams that came together, at least one."""
        return self._wait(self._together, False, timeout)

    def _together(self) -> list[Datagram]:
        with self._lock:
            if not self._kept:
                return [Datagram(*came) for came in self.core.recv()]
            kept = list(self._kept)
            self._kept.clear()
            return kept

    def join(self, group: str, port: int | None = None) -> None:
        """Wants what is sent to a group and port: that of the socket, unless named.

        224.0.0.0/4 are multicast groups, 240.0.0.0/4 anycast groups. Sending needs no joining. A join
        that the node refuses is an error of a later receive.
        """
        self.core.join(group, self.core.port if port is None else port_number(port))

    def leave(self, group: str, port: int | None = None) -> None:
        """Wants it no more."""
        self.core.leave(group, self.core.port if port is None else port_number(port))

    def __repr__(self) -> str:
        return f"<sinew.Socket {self.local if self.fileno() >= 0 else 'closed'}>"


class Stream(_Open):
    """A reliable stream of bytes, in order.

    Closing it delivers what was written, and the end. A stream that ends before its time raises
    ``ConnectionResetError``, so an end is never taken for one. A ``with`` whose body raises resets its
    stream, unless ``write_eof`` has ended what this end writes: what was written is a part.
    """

    _has_ended = False

    @property
    def local(self) -> str:
        """This end."""
        return self.core.local

    @property
    def peer(self) -> str:
        """The other end."""
        return self.core.peer

    def read(self, most: int = 65_536, timeout: float | None = None) -> bytes:
        """Up to ``most`` bytes; empty at the end of what the peer writes."""
        return self._wait(lambda: self.core.read(most), False, timeout)

    def read_all(self, timeout: float | None = None) -> bytes:
        """Everything to the end; ``timeout`` counts from one piece to the next."""
        pieces = []
        while piece := self.read(timeout=timeout):
            pieces.append(piece)
        return b"".join(pieces)

    def write(self, data: bytes, timeout: float | None = None) -> None:
        """Writes all of it."""
        written = 0
        while written < len(data):
            left = data[written : written + (1 << 20)]
            written += self._wait(lambda: self.core.write(left), True, timeout)

    def write_eof(self) -> None:
        """Ends what this end writes; the peer reads on to the end."""
        self.core.write_eof()
        self._has_ended = True

    def reset(self) -> None:
        """Ends the stream at once; the peer gets an error and no end."""
        self.core.reset()

    def _give_up(self, error: BaseException | None) -> None:
        """Resets it after an error, unless this end has written everything, or it is closed.

        A program that exits with success has no error.
        """
        is_error = error is not None and not (isinstance(error, SystemExit) and not error.code)
        if is_error and not self._has_ended and self.fileno() >= 0:
            self.reset()

    def __exit__(
        self, _: type[BaseException] | None, error: BaseException | None, *__: object
    ) -> None:
        self._give_up(error)
        self.close()

    def __repr__(self) -> str:
        return (
            f"<sinew.Stream {self.local} - {self.peer}>"
            if self.fileno() >= 0
            else "<sinew.Stream closed>"
        )


class Listener(_Open):
    """A port that takes streams. Iterating takes one after the other."""

    @property
    def local(self) -> str:
        """The node and port at which it takes streams."""
        return self.core.local

    def accept(self, timeout: float | None = None) -> Stream:
        """The next stream."""
        return Stream(self._wait(self.core.accept, False, timeout))

    def __iter__(self) -> Iterator[Stream]:
        while True:
            yield self.accept()
