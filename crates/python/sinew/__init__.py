"""Sinew: an overlay network for voice and live data, its simulator and its laboratory.

- :class:`Scenario`: a network, its traffic and its faults; ``run`` simulates it with the production
  nodes in virtual time.
- :mod:`sinew.lab`: the experiments, with a verdict on each claim, on one machine or on a cluster.
- :class:`Node`: a running node: datagrams with a deadline, streams, groups, questions.
  :mod:`sinew.aio` has the same for asyncio.

``python -m sinew`` is the command line.

>>> import sinew
>>> pair = sinew.Builder("pair", duration="2s").node("a", "b")
>>> pair = pair.link("a", "b", delay="10ms", loss="5%").flow("a", "b").build()
>>> pair.run(seed=7).flows[0]["sent"]
100
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ._custom import Moment
from ._sinew import Error, __version__, build
from .builder import Builder
from .node import Datagram, Listener, Node, Socket, Stream
from .result import Result
from .scenario import Scenario

if TYPE_CHECKING:
    from . import aio, lab

__all__ = [
    "Builder",
    "Datagram",
    "Error",
    "Listener",
    "Moment",
    "Node",
    "Result",
    "Scenario",
    "Socket",
    "Stream",
    "__version__",
    "aio",
    "build",
    "lab",
]

_LATER = ("aio", "lab")


def __getattr__(name: str) -> Any:
    """Loads the modules that not everybody needs, and what they import."""
    if name in _LATER:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
