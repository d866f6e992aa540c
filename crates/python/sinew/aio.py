"""A running node for asyncio: the classes of :mod:`sinew.node` with calls that are awaited.

>>> async with await sinew.aio.Node("net/ams").bind(5000) as socket:   # doctest: +SKIP
...     await socket.send("fra:5000", b"hello")
...     async for datagram in socket:
...         print(datagram.payload)

Use ``asyncio.timeout`` or ``asyncio.wait_for`` for deadlines of calls. Opening a socket and asking the
node run on a thread of the loop's executor; sending and receiving run on the loop itself.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, TypeVar

from . import node as plain
from ._units import number
from .node import Datagram, listed

__all__ = ["Datagram", "Listener", "Node", "Socket", "Stream"]

#: Calls that need not wait, one after the other, before other tasks of the loop have their turn.
_AT_ONCE_MAX = 16

_T = TypeVar("_T")
_S = TypeVar("_S", bound="_Open")


class Node:
    """As :class:`sinew.Node`."""

    def __init__(self, where: str | os.PathLike[str] | None = None) -> None:
        """See :class:`sinew.Node`."""
        self.plain = plain.Node(where)

    async def status(self) -> dict[str, Any]:
        """Everything about the node."""
        return await asyncio.to_thread(self.plain.status)

    async def links(self) -> list[dict[str, Any]]:
        """Its links."""
        return await asyncio.to_thread(self.plain.links)

    async def groups(self) -> list[dict[str, Any]]:
        """The groups that it knows of."""
        return await asyncio.to_thread(self.plain.groups)

    async def ask(self, what: dict[str, Any]) -> dict[str, Any]:
        """The answer of the node's control socket."""
        return await asyncio.to_thread(self.plain.ask, what)

    async def why(self, src: str, dst: str, **how: Any) -> dict[str, Any]:
        """Explains a path as the node knows the network."""
        return await asyncio.to_thread(self.plain.why, src, dst, **how)

    async def whatif(
        self, edits: str, src: str | None = None, dst: str | None = None, **how: Any
    ) -> dict[str, Any]:
        """Predicts how paths would change."""
        return await asyncio.to_thread(self.plain.whatif, edits, src, dst, **how)

    async def resolve(self, target: str) -> str:
        """``fra:5000`` as ``10.7.0.3:5000``."""
        return await asyncio.to_thread(self.plain.resolve, target)

    async def watch(self, every_s: float = 1.0) -> AsyncIterator[dict[str, Any]]:
        """The status, again and again, ``every_s`` seconds apart."""
        pause = number("every_s", every_s)
        while True:
            yield await self.status()
            await asyncio.sleep(pause)

    async def bind(self, port: int = 0, **options: Any) -> Socket:
        """Opens a socket for datagrams; the options are those of :meth:`sinew.Node.bind`."""
        return Socket(await asyncio.to_thread(self.plain.bind, port, **options))

    async def connect(self, target: str, **options: Any) -> Stream:
        """Opens a reliable stream of bytes."""
        return Stream(await asyncio.to_thread(self.plain.connect, target, **options))

    async def listen(self, port: int = 0) -> Listener:
        """Takes streams at a virtual port."""
        return Listener(await asyncio.to_thread(self.plain.listen, port))


class _Open:
    """A descriptor that the event loop waits for. Any number of tasks may wait for it."""

    def __init__(self, opened: Any) -> None:
        self.plain = opened
        self.core = opened.core
        self._waiting: dict[bool, set[asyncio.Future[None]]] = {False: set(), True: set()}
        self._at_once = 0

    def close(self) -> None:
        """Closes it; more than once does nothing. Tasks that wait for it get a ``ValueError``."""
        fd = self.plain.fileno()
        for is_write, waiting in self._waiting.items():
            for ready in waiting:
                # While the number is still this descriptor's.
                _unwatch(ready.get_loop(), fd, is_write)
            _wake(waiting)
        self.plain.close()

    async def _wait(self, what: Callable[[], _T], is_write: bool) -> _T:
        """Tries until it can be done."""
        self._at_once += 1
        if self._at_once > _AT_ONCE_MAX:
            # What is always ready would never let another task run.
            self._at_once = 0
            await asyncio.sleep(0)
        while True:
            try:
                return what()
            except BlockingIOError:
                self._at_once = 0
            await self._ready(is_write)

    async def _ready(self, is_write: bool) -> None:
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        waiting = self._waiting[is_write]
        if not waiting:
            watch = loop.add_writer if is_write else loop.add_reader
            watch(self.plain.fileno(), _wake, waiting)
        waiting.add(ready)
        try:
            await ready
        finally:
            waiting.discard(ready)
            fd = self.plain.fileno()
            if not waiting and fd >= 0:
                _unwatch(loop, fd, is_write)

    async def __aenter__(self: _S) -> _S:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


def _wake(waiting: set[asyncio.Future[None]]) -> None:
    for ready in waiting:
        if not ready.done():
            ready.set_result(None)


def _unwatch(loop: asyncio.AbstractEventLoop, fd: int, is_write: bool) -> None:
    # A loop that is closed watches nothing.
    if not loop.is_closed():
        (loop.remove_writer if is_write else loop.remove_reader)(fd)


class Socket(_Open):
    """As :class:`sinew.Socket`. Several tasks may use one."""

    def __init__(self, opened: plain.Socket) -> None:
        super().__init__(opened)
        self._kept: list[Datagram] = []
        self._resolved: dict[str, str] = {}

    @property
    def local(self) -> str:
        """Its own node and port."""
        return self.plain.local

    async def send(self, target: str, payload: bytes) -> None:
        """Sends one datagram."""
        await self.send_batch(target, [payload])

    async def send_batch(self, target: str, payloads: Sequence[bytes]) -> None:
        """Sends datagrams together: the fast way for many."""
        if target not in self._resolved:
            resolve = self.plain._node.resolve
            self._resolved[target] = await asyncio.to_thread(resolve, target)
        to = self._resolved[target]
        ready = listed(payloads)
        sent = 0
        while sent < len(ready):
            sent += await self._wait(lambda: self.core.send(to, ready, sent), True)

    async def recv(self) -> Datagram:
        """The next datagram."""
        return await self._wait(self._next, False)

    def _next(self) -> Datagram:
        if not self._kept:
            self._kept = [Datagram(*came) for came in self.core.recv()[::-1]]
            if len(self._kept) > 1:
                # The rest is for the other tasks that wait.
                _wake(self._waiting[False])
        return self._kept.pop()

    async def recv_batch(self) -> list[Datagram]:
        """Datagrams that came together, at least one."""
        return await self._wait(self._together, False)

    def _together(self) -> list[Datagram]:
        if self._kept:
            kept, self._kept = self._kept[::-1], []
            return kept
        return [Datagram(*came) for came in self.core.recv()]

    def join(self, group: str, port: int | None = None) -> None:
        """Wants what is sent to a group; see :meth:`sinew.Socket.join`."""
        self.plain.join(group, port)

    def leave(self, group: str, port: int | None = None) -> None:
        """Wants it no more."""
        self.plain.leave(group, port)

    async def __aiter__(self) -> AsyncIterator[Datagram]:
        while True:
            # One by one: who leaves the loop leaves the rest for the next call.
            yield await self.recv()


class Stream(_Open):
    """As :class:`sinew.Stream`."""

    @property
    def local(self) -> str:
        """This end."""
        return self.plain.local

    @property
    def peer(self) -> str:
        """The other end."""
        return self.plain.peer

    async def read(self, most: int = 65_536) -> bytes:
        """Up to ``most`` bytes; empty at the end of what the peer writes."""
        return await self._wait(lambda: self.core.read(most), False)

    async def read_all(self) -> bytes:
        """Everything to the end."""
        pieces = []
        while piece := await self.read():
            pieces.append(piece)
        return b"".join(pieces)

    async def write(self, data: bytes) -> None:
        """Writes all of it."""
        written = 0
        while written < len(data):
            left = data[written : written + (1 << 20)]
            written += await self._wait(lambda: self.core.write(left), True)

    def write_eof(self) -> None:
        """Ends what this end writes."""
        self.plain.write_eof()

    def reset(self) -> None:
        """Ends the stream at once."""
        self.plain.reset()

    async def __aexit__(
        self, _: type[BaseException] | None, error: BaseException | None, *__: object
    ) -> None:
        self.plain._give_up(error)
        self.close()


class Listener(_Open):
    """As :class:`sinew.Listener`."""

    @property
    def local(self) -> str:
        """The node and port at which it takes streams."""
        return self.plain.local

    async def accept(self) -> Stream:
        """The next stream."""
        return Stream(plain.Stream(await self._wait(self.core.accept, False)))

    async def __aiter__(self) -> AsyncIterator[Stream]:
        while True:
            yield await self.accept()
