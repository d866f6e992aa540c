"""Sweeps on a Dask cluster: the same bytes, also when a worker is lost in the middle."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

import sinew
from sinew import lab

distributed = pytest.importorskip("distributed")

#: It computes, and takes a moment.
FIGURE = "amir06/fig12"


@pytest.fixture
def client() -> Iterator[Any]:
    """Two workers that are processes of their own, on the loopback interface."""
    cluster = distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        # What is told of the worker that a test kills.
        silence_logs=50,
    )
    with cluster, distributed.Client(cluster) as client:
        yield client


def test_files_are_the_same_also_when_a_worker_is_killed(client):
    plain = lab.run(FIGURE, keep=False)
    assert lab.run(FIGURE, keep=False, client=client).files == plain.files
    workers = list(client.run(os.getpid).values())
    told: list[str] = []

    def progress(_: float, key: str) -> None:
        if not told:
            os.kill(workers[0], signal.SIGKILL)
        told.append(key)

    assert lab.run(FIGURE, keep=False, client=client, progress=progress).files == plain.files
    # Each cell counts once, also where it was measured twice.
    assert sorted(told) == sorted(cell["key"] for cell in lab.cells(FIGURE))


def test_the_error_of_a_cell_is_raised_here(client):
    request = lab._request(FIGURE, True, 1, None, {})
    with pytest.raises(sinew.Error, match="no such cell"):
        dict(lab.spread(client, lab._measure, {"x": (request, {"key": "nothing"}, lab._sinew.build)}))
