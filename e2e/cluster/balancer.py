"""A load balancer as clouds have it: passes each connection to its address on to another one, which may be of the other
family.

Usage: balancer.py HOST PORT TARGET_HOST TARGET_PORT
"""
import asyncio
import contextlib
import sys

CHUNK = 1 << 18


async def copy(reader, writer):
    """Passes on what comes, until either end goes."""
    with contextlib.suppress(OSError):
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
    writer.close()


async def main(host, port, *target):
    async def serve(reader, writer):
        try:
            to_reader, to_writer = await asyncio.open_connection(*target)
        except OSError as error:
            print(f"{target}: {error}", flush=True)
            writer.close()
            return
        await asyncio.gather(copy(reader, to_writer), copy(to_reader, writer))
    server = await asyncio.start_server(serve, host, port)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
