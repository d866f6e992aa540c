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


@pytest.fixture(scope="session")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with two running nodes, ams and fra, that reach each other."""
    # A socket's path has few bytes.
    net = tmp_path_factory.mktemp("n")
    run = lambda *words: subprocess.run(command(*words), check=True, capture_output=True)  # noqa: E731
    run("net", "init", net / "net", "--name", "try")
    nodes = []
    for name in ("ams", "fra"):
        run("net", "add", net / "net", name, "--address", f"127.0.0.1:{free_port()}")
    try:
        for name in ("ams", "fra"):
            config = net / "net" / name / "node.toml"
            nodes.append(
                subprocess.Popen(
                    command("node", "--config", config),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            )
        for name in ("ams", "fra"):
            until_up(net / "net" / name)
        yield net / "net"
    finally:
        for node in nodes:
            node.terminate()
        for node in nodes:
            node.wait()


def until_up(folder: Path) -> None:
    # The command waits for a node that is just starting.
    subprocess.run(command("status", "--node", folder), check=True, capture_output=True)
    node = sinew.Node(folder)
    for _, status in zip(range(LOOKS_MAX), node.watch(every_s=0.05)):
        links = status["snapshot"]["links"]
        if links and all(link["state"] == "up" for link in links) and status["snapshot"]["routes"]:
            return
    raise AssertionError(f"{folder}: its link is not up: {links}")
