"""Tasks on threads, on an executor, or on a Dask cluster: results as they come."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

#: How often a waiting thread looks for Ctrl-C, in seconds.
_LOOK_S = 0.1


class Threads:
    """Threads of this process. They do not keep it alive: Ctrl-C leaves what they have begun."""

    def __init__(self, count: int) -> None:
        """``count`` tasks at a time."""
        self._count = count

    def run(
        self, work: Callable[..., Any], tasks: Mapping[str, tuple[Any, ...]]
    ) -> Iterator[tuple[str, Any]]:
        """Results by their names, as they come."""
        waiting: queue.SimpleQueue[tuple[str, tuple[Any, ...]]] = queue.SimpleQueue()
        done: queue.SimpleQueue[tuple[str, Any, BaseException | None]] = queue.SimpleQueue()
        stop = threading.Event()
        for task in tasks.items():
            waiting.put(task)

        def take() -> None:
            while not stop.is_set():
                try:
                    name, arguments = waiting.get_nowait()
                except queue.Empty:
                    return
                try:
                    done.put((name, work(*arguments), None))
                except BaseException as error:  # noqa: BLE001
                    done.put((name, None, error))

        for _ in range(min(self._count, len(tasks))):
            threading.Thread(target=take, daemon=True).start()
        left = len(tasks)
        try:
            while left:
                try:
                    name, result, error = done.get(timeout=_LOOK_S)
                except queue.Empty:
                    continue
                if error is not None:
                    raise error
                left -= 1
                yield name, result
        finally:
            stop.set()


def spread(
    client: Any, work: Callable[..., Any], tasks: Mapping[str, tuple[Any, ...]]
) -> Iterator[tuple[str, Any]]:
    """Does ``work`` for each task; the results by their names, as they come.

    ``client`` is a :class:`Threads`, an executor of ``concurrent.futures``, or a Dask client. Tasks of
    workers that are lost are Dask's to repeat. The first error cancels what has not begun.
    """
    if isinstance(client, Threads):
        yield from client.run(work, tasks)
        return
    if not callable(getattr(client, "submit", None)):
        raise TypeError(
            "client: expected a dask.distributed.Client or an executor of concurrent.futures, not "
            f"{type(client).__name__}"
        )
    if type(client).__module__.split(".")[0] == "distributed":
        futures = {client.submit(work, *task, pure=False): name for name, task in tasks.items()}
        from distributed import as_completed
    else:
        futures = {client.submit(work, *task): name for name, task in tasks.items()}
        from concurrent.futures import as_completed
    try:
        for future in as_completed(_listed(futures)):
            yield futures[future], future.result()
    finally:
        for future in futures:
            future.cancel()


def _listed(futures: Mapping[Any, str]) -> list[Any]:
    return list(futures)
