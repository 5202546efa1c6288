"""Hostile clients, all at once: bombs, bodies that are held back, endless headers, and connections that say nothing.

python -m stopwatch.hostile PORT SECONDS
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools

from stopwatch.load import hostile_requests

HEAD = b"POST /v2/models/lenet/infer HTTP/1.1\r\nHost: localhost\r\n"
HELD, SILENT, BODY = 40, 500, 2**20


async def attack(port: int, seconds: float) -> dict[str, int]:
    """Attack for that long; returns how often each kind was sent."""
    sent: dict[str, int] = dict.fromkeys(("bombs", "held bodies", "endless headers", "silent connections"), 0)
    bombs = itertools.cycle(list(hostile_requests()))

    async def repeat(kind: str, send) -> None:
        while True:
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                sent[kind] += 1
                try:
                    await send(reader, writer)
                finally:
                    writer.close()

    async def bomb(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(next(bombs))
        await writer.drain()
        await reader.read(1)

    async def held(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % BODY + b" " * (BODY - 1))
        await writer.drain()
        await reader.read(1)

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD)
        while not reader.at_eof():
            writer.write(b"X: " + b"a" * 4000 + b"\r\n")
            await writer.drain()
            await asyncio.sleep(0)

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)

    tasks = [asyncio.create_task(repeat("bombs", bomb)) for _ in range(2)]
    tasks += [asyncio.create_task(repeat("held bodies", held)) for _ in range(HELD)]
    tasks += [asyncio.create_task(repeat("endless headers", endless)) for _ in range(2)]
    tasks += [asyncio.create_task(repeat("silent connections", silent)) for _ in range(SILENT)]
    await asyncio.sleep(seconds)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return sent
