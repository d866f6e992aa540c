"""A running node: datagrams, streams, groups, questions; plain and asyncio."""

from __future__ import annotations

import asyncio
import os
import threading

import pytest

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
    for _, status in zip(range(400), node.watch(every_s=0.05)):
        if GROUP in str(status):
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


def test_a_socket_is_refused_after_a_fork(ams):
    with ams.bind() as here:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                here.send(here.local, b"x")
            except RuntimeError as error:
                os.write(writer, str(error).encode())
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            assert "open one in the child" in pipe.read()
        os.waitpid(child, 0)


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
        assert (await ams.status())["snapshot"]["name"] == "ams"
        assert (await ams.why("ams", "fra"))["chosen"]
        async for status in ams.watch(every_s=0.01):
            assert status["snapshot"]["name"] == "ams"
            break

    asyncio.run(asyncio.wait_for(talk(), 60))
