"""What the tests share: scenarios, and a network of two running nodes."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import sinew

#: Looks at a node's status, 50 ms apart, before its link must be up.
LOOKS_MAX = 400

CHAIN = """
[scenario]
name = "chain"
duration = "5s"
[topology]
kind = "chain"
nodes = 3
delay = "10ms"
path = "loss=5% burst=25%"
[[flow]]
from = "n0"
to = "n2"
"""


@pytest.fixture
def pair() -> sinew.Builder:
    """Two nodes, a link, a call."""
    builder = sinew.Builder("pair", duration="5s").node("a", "b")
    return builder.link("a", "b", delay_ms=10, loss_pct=5).flow("a", "b")


def command(*words: str | Path) -> list[str]:
    """The command line, by this interpreter."""
    return [sys.executable, "-m", "sinew", *map(str, words)]


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Nodes:
    """Running nodes of a network that ``sinew net init`` has made. None outlives its ``with``."""

    def __init__(self, net: Path, names: list[str]) -> None:
        for name in names:
            words = command("net", "add", net, name, "--address", f"127.0.0.1:{free_port()}")
            subprocess.run(words, check=True, capture_output=True)
        self._net, self._names = net, names
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Nodes:
        try:
            for name in self._names:
                words = command("node", "--config", self._net / name / "node.toml")
                silent = subprocess.DEVNULL
                self._processes.append(subprocess.Popen(words, stdout=silent, stderr=silent))
            for name in self._names:
                until_up(self._net / name, len(self._names) - 1)
        except BaseException:
            self.kill()
            raise
        return self

    def kill(self) -> None:
        """Ends them at once, and waits for their end."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()

    def __exit__(self, *_: object) -> None:
        self.kill()


@pytest.fixture(scope="session")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with two running nodes, ams and fra, that reach each other."""
    # A socket's path has few bytes.
    net = tmp_path_factory.mktemp("n") / "net"
    subprocess.run(command("net", "init", net, "--name", "try"), check=True, capture_output=True)
    with Nodes(net, ["ams", "fra"]):
        yield net


def until_up(folder: Path, peers: int) -> None:
    # The command waits for a node that is just starting.
    subprocess.run(command("status", "--node", folder), check=True, capture_output=True)
    node = sinew.Node(folder)
    for _, status in zip(range(LOOKS_MAX), node.watch(every_s=0.05)):
        snapshot = status["snapshot"]
        up = [link for link in snapshot["links"] if link["state"] == "up"]
        if len(up) == peers and (snapshot["routes"] or not peers):
            return
    raise AssertionError(f"{folder}: its links are not up: {snapshot['links']}")
