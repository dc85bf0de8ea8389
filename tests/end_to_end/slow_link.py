"""A TCP proxy with a delay of its own for each direction, as a far or loaded network has.

python slow_link.py PORT TARGET_PORT MS_TO_TARGET MS_FROM_TARGET JITTER_MS
"""

import asyncio
import random
import sys
import time


async def carry(reader, writer, seconds, jitter):
    """Pass on what comes, in order, each piece not before its delay is over."""
    queue = asyncio.Queue()

    async def deliver():
        while True:
            due, data = await queue.get()
            await asyncio.sleep(due - time.monotonic())
            if not data:
                writer.close()
                return
            writer.write(data)
            await writer.drain()

    delivering = asyncio.create_task(deliver())
    try:
        data = b"?"
        while data:
            data = await reader.read(65536)
            queue.put_nowait((time.monotonic() + seconds + random.uniform(0, jitter), data))
        await delivering
    except OSError:
        delivering.cancel()
        writer.close()


async def main():
    port, target, there_ms, back_ms, jitter_ms = (float(word) for word in sys.argv[1:])

    async def accept(reader, writer):
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", int(target))
        except OSError:
            writer.close()
            return
        there = carry(reader, far_writer, there_ms / 1e3, jitter_ms / 1e3)
        back = carry(far_reader, writer, back_ms / 1e3, jitter_ms / 1e3)
        await asyncio.gather(there, back)

    async with await asyncio.start_server(accept, "127.0.0.1", int(port)) as server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
