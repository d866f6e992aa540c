"""A running node: datagrams, streams, groups, questions; plain and asyncio."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from conftest import LOOKS_MAX, Nodes, command

import sinew

#: Seconds until a test gives up; what arrives does so within milliseconds.
SOON = 20.0
GROUP = "239.1.2.3"


@pytest.fixture
def ams(network) -> sinew.Node:
    return sinew.Node(network / "ams")


@pytest.fixture
def fra(network) -> sinew.Node:
    return sinew.Node(network / "fra")


def test_datagrams_cross_one_by_one_and_in_batches(ams, fra):
    with ams.bind() as here, fra.bind(deadline_ms=1000) as there:
        port = there.local.rsplit(":", 1)[1]
        here.send(f"fra:{port}", b"hello")
        came = there.recv(SOON)
        assert came.payload == b"hello" and came.sender == here.local and came.group is None
        assert 0 < came.left_s <= 0.1 and came.recovered is False
        payloads = [bytes([n]) * 160 for n in range(200)]
        there_all: list[bytes] = []
        # As many as the buffers between the two hold at a time.
        for first in range(0, 200, 50):
            here.send_batch(there.local, payloads[first : first + 50])
            while len(there_all) < first + 50:
                there_all += [datagram.payload for datagram in there.recv_batch(SOON)]
        assert sorted(there_all) == sorted(payloads)
        with pytest.raises(ValueError, match="send less at once"):
            here.send(there.local, bytes(here.max_payload + 1))
        with pytest.raises(TimeoutError):
            there.recv(timeout=0)
    assert here.fileno() == -1
    with pytest.raises(ValueError, match="closed"):
        here.send(there.local, b"late")


def test_streams_carry_bytes_both_ways_and_end(ams, fra):
    text = bytes(range(256)) * 4096
    with fra.listen() as listener:

        def answer() -> None:
            with listener.accept(SOON) as stream:
                stream.write(stream.read_all(SOON)[::-1], SOON)

        thread = threading.Thread(target=answer)
        thread.start()
        with ams.connect(listener.local) as stream:
            assert stream.peer == listener.local
            stream.write(text, SOON)
            stream.write_eof()
            assert stream.read_all(SOON) == text[::-1]
        thread.join()
        with ams.connect(listener.local) as stream, listener.accept(SOON) as other:
            other.reset()
            with pytest.raises(ConnectionResetError):
                stream.read(timeout=SOON)


def test_a_body_that_raises_has_not_written_everything(ams, fra):
    with fra.listen() as listener:
        with pytest.raises(KeyError), ams.connect(listener.local) as stream:
            stream.write(b"a part", SOON)
            other = listener.accept(SOON)
            raise KeyError
        with other, pytest.raises(ConnectionResetError):
            other.read_all(SOON)
        # What was ended is whole, whatever the body does then.
        with pytest.raises(KeyError), ams.connect(listener.local) as stream:
            stream.write(b"all of it", SOON)
            stream.write_eof()
            raise KeyError
        with listener.accept(SOON) as other:
            assert other.read_all(SOON) == b"all of it"
        # A stream that is closed has its end.
        with pytest.raises(KeyError), ams.connect(listener.local) as stream:
            stream.write(b"closed", SOON)
            stream.close()
            raise KeyError
        with listener.accept(SOON) as other:
            assert other.read_all(SOON) == b"closed"


def test_groups_reach_their_members(ams, fra):
    with ams.bind() as here, fra.bind(5100, deadline_ms=1000) as there:
        there.join(GROUP)
        until_member(fra)
        until_member(ams)
        here.send(f"{GROUP}:5100", b"to all")
        came = there.recv(SOON)
        assert came.payload == b"to all" and came.group == GROUP
        there.leave(GROUP)
        with pytest.raises(ValueError):
            here.join("10.7.0.300")


def until_member(node: sinew.Node) -> None:
    """Until the node knows of a member."""
    for _, _status in zip(range(LOOKS_MAX), node.watch(every_s=0.05)):
        if any(group["group"] == GROUP and group["members"] for group in node.groups()):
            return
    raise AssertionError("the group is not known")


def test_the_node_is_asked(ams):
    assert ams.status()["snapshot"]["name"] == "ams"
    assert [link["name"] for link in ams.links()] == ["fra"]
    assert ams.why("ams", "fra")["chosen"]
    assert ams.whatif("ams-fra delay=40ms", "ams", "fra")
    assert ams.resolve("fra:5000").endswith(":5000")
    with pytest.raises(ValueError, match="no node `par`"):
        ams.resolve("par:5000")
    with pytest.raises(ValueError, match="write it like"):
        ams.resolve("fra")


def test_bad_options_are_answered(ams):
    for options, answer in [
        ({"service": "fast"}, "voice, video, bulk or best-effort"),
        ({"deadline_ms": -1}, "deadline_ms=-1"),
        ({"deadline_ms": float("nan")}, "deadline_ms=nan"),
        ({"paths": "best-path"}, "expected one of"),
        ({"priority": 8}, "from 0 to 7"),
        ({"port": 70_000}, "from 0 to 65535"),
    ]:
        with pytest.raises(ValueError, match=answer):
            ams.bind(**options)
    with pytest.raises(ConnectionRefusedError, match="sinew node"):
        sinew.Node("/nowhere/x.sock").bind()
    with pytest.raises(ConnectionRefusedError):
        sinew.Node("/nowhere/x.ctl").status()


#: A child of a fork that uses and drops what the parent has opened, and then opens its own.
FORKED = """
import os, sys, sinew
node = sinew.Node(sys.argv[1])
listener, socket = node.listen(), node.bind()
here = socket.local
stream, other = node.connect(listener.local), listener.accept()
child = os.fork()
if child == 0:
    for use in (lambda: stream.write(b"x"), lambda: socket.send(here, b"x"), listener.accept):
        try:
            use()
        except RuntimeError as error:
            assert "open one in the child" in str(error)
        else:
            sys.exit(1)
    stream.close()
    with node.bind() as own:
        own.send(here, b"from the child")
    # The end of the interpreter drops the rest.
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
assert socket.recv(20).payload == b"from the child"
stream.write(b"still open")
stream.write_eof()
assert other.read_all(20) == b"still open"
"""


def test_what_was_opened_before_a_fork_stays_the_parents(network):
    words = [sys.executable, "-c", FORKED, str(network / "ams")]
    done = subprocess.run(words, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_node_that_vanishes_ends_what_waits(tmp_path_factory):
    """Killed, so that it says nothing to its clients."""
    folder: Path = tmp_path_factory.mktemp("v") / "net"
    subprocess.run(command("net", "init", folder, "--name", "gone"), check=True, capture_output=True)
    with Nodes(folder, ["ams"]) as nodes:
        where = folder / "ams"

        async def talk() -> list[object]:
            node = sinew.aio.Node(where)
            socket, listener = await node.bind(), await node.listen()
            stream, accepted = await asyncio.gather(node.connect(listener.local), listener.accept())
            waits = [socket.recv(), socket.recv(), listener.accept(), stream.read(), accepted.read()]
            tasks = [asyncio.create_task(wait) for wait in waits]
            # All of them wait before the node goes.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            await asyncio.to_thread(nodes.kill)
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            with pytest.raises(ConnectionError):
                await node.status()
            with pytest.raises(ConnectionError):
                await node.bind()
            return ended

        with sinew.Node(where).bind() as plain:
            ended = asyncio.run(asyncio.wait_for(talk(), 60))
            assert [isinstance(end, ConnectionError) for end in ended] == [True] * 5, ended
            with pytest.raises(ConnectionError):
                plain.recv(SOON)


def test_asyncio_has_the_same(network):
    async def talk() -> None:
        ams, fra = sinew.aio.Node(network / "ams"), sinew.aio.Node(network / "fra")
        async with await ams.bind() as here, await fra.bind(deadline_ms=1000) as there:
            waits = asyncio.create_task(there.recv())
            await here.send(there.local, b"hello")
            assert (await waits).payload == b"hello"
            await here.send_batch(there.local, [b"1", b"2", b"3"])
            came = []
            async for datagram in there:
                came.append(datagram.payload)
                if len(came) == 3:
                    break
            assert sorted(came) == [b"1", b"2", b"3"]
        async with await fra.listen() as listener:
            accepting = asyncio.create_task(listener.accept())
            async with await ams.connect(listener.local) as stream, await accepting as other:
                await stream.write(b"question")
                stream.write_eof()
                assert await other.read_all() == b"question"
                await other.write(b"answer")
                other.close()
                assert await stream.read_all() == b"answer"
            accepting = asyncio.create_task(listener.accept())
            with pytest.raises(KeyError):
                async with await ams.connect(listener.local) as stream:
                    await stream.write(b"a part")
                    raise KeyError
            async with await accepting as other:
                with pytest.raises(ConnectionResetError):
                    await other.read_all()
        assert (await ams.status())["snapshot"]["name"] == "ams"
        assert (await ams.why("ams", "fra"))["chosen"]
        async for status in ams.watch(every_s=0.01):
            assert status["snapshot"]["name"] == "ams"
            break

    asyncio.run(asyncio.wait_for(talk(), 60))


def test_many_tasks_use_one_socket_and_closing_it_ends_them(network):
    async def talk() -> None:
        ams, fra = sinew.aio.Node(network / "ams"), sinew.aio.Node(network / "fra")
        here, there = await ams.bind(), await fra.bind(deadline_ms=1000)
        waits = [asyncio.create_task(there.recv()) for _ in range(3)]
        for text in (b"1", b"2", b"3"):
            await here.send(there.local, text)
        assert sorted([datagram.payload for datagram in await asyncio.gather(*waits)]) == [b"1", b"2", b"3"]
        waits = [asyncio.create_task(there.recv()) for _ in range(2)]
        await asyncio.sleep(0)
        there.close()
        for wait in waits:
            with pytest.raises(ValueError, match="closed"):
                await wait
        here.close()

    asyncio.run(asyncio.wait_for(talk(), 60))


def test_what_is_no_payload_is_refused(network):
    with sinew.Node(network / "ams").bind() as socket:
        for wrong in (5, "text", None, [1, 2]):
            with pytest.raises(TypeError):
                socket.send(socket.local, wrong)
        with pytest.raises(TypeError, match="list"):
            socket.send_batch(socket.local, b"hello")
        socket.send(socket.local, bytearray(b"fine"))
        assert socket.recv(timeout=10).payload == b"fine"


def test_threads_and_loops_share_what_came_together(network):
    ams = sinew.Node(network / "ams")
    with ams.bind(service="best-effort") as here, ams.bind() as there:
        came = []
        threads = [threading.Thread(target=lambda: came.append(there.recv(timeout=30))) for _ in range(8)]
        for thread in threads:
            thread.start()
        here.send_batch(there.local, [bytes([n]) for n in range(8)])
        for thread in threads:
            thread.join()
        assert sorted(one.payload for one in came) == [bytes([n]) for n in range(8)]

    async def leave() -> None:
        node = sinew.aio.Node(network / "ams")
        async with await node.bind() as here, await node.bind() as there:
            await here.send_batch(there.local, [b"1", b"2", b"3"])
            async for datagram in there:
                assert datagram.payload == b"1"
                break
            assert (await there.recv()).payload == b"2"
            assert (await there.recv()).payload == b"3"

    asyncio.run(asyncio.wait_for(leave(), 60))
