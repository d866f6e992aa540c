"""How many datagrams asyncio sends and receives through a node, on one core of Python.

    sinew net init net --name try && sinew net add net ams --address 127.0.0.1:7701
    sinew node --config net/ams/node.toml &
    python datagrams.py net/ams [COUNT]

One process sends batches to a socket of its own, through the node. Sender and receiver share its core,
so each datagram costs it both a send and a receive. The node's own work is not in the processor time.
"""

from __future__ import annotations

import asyncio
import resource
import sys
import time

from sinew import aio

PAYLOAD_BYTES = 160
#: Datagrams of a batch: what a message to the node holds.
BATCH = 64
#: Datagrams on their way at most: the receiver's buffer holds more, so none is lost.
WINDOW = 8 * BATCH
#: Seconds without a datagram until the rest counts as lost.
SILENCE = 2.0


async def measure(where: str, count: int) -> int:
    """Sends ``count`` datagrams; how many came."""
    node = aio.Node(where)
    payloads = [bytes(PAYLOAD_BYTES)] * BATCH
    came, room = 0, asyncio.Event()
    async with await node.bind(service="best-effort") as here, await node.bind() as there:

        async def send() -> None:
            for sent in range(0, count, BATCH):
                while sent - came >= WINDOW:
                    room.clear()
                    await room.wait()
                await here.send_batch(there.local, payloads)

        sender = asyncio.create_task(send())
        try:
            while came < count:
                came += len(await asyncio.wait_for(there.recv_batch(), SILENCE))
                room.set()
        except asyncio.TimeoutError:
            pass
        sender.cancel()
    return came


def main() -> None:
    """Measures and prints."""
    where, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 640_000
    began, used = time.monotonic(), _used_s()
    came = asyncio.run(measure(where, count))
    took_s, used_s = time.monotonic() - began, _used_s() - used
    print(f"{came} of {count} datagrams of {PAYLOAD_BYTES} bytes in {took_s:.2f} s: {came / took_s:.0f}/s")
    print(f"processor time of Python: {used_s:.2f} s: {came / used_s:.0f}/s per core")


def _used_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
