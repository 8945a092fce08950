"""A loopback peer in a thread of its own, with its own event loop, so that it never holds up the client under test."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager

Serve = Callable[[], AbstractAsyncContextManager[int]]
"""Opens the server on a free port of 127.0.0.1 and yields the port."""


@contextmanager
def in_thread(serve: Serve) -> Iterator[int]:
    """Run a server until the block is left; yields its port."""
    ports: list[int | BaseException] = []
    ready, stop = threading.Event(), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def main() -> None:
        loops.append(asyncio.get_running_loop())
        try:
            async with serve() as port:
                ports.append(port)
                ready.set()
                await stop.wait()
        except BaseException as error:
            ports.append(error)
            ready.set()
            raise

    thread = threading.Thread(target=lambda: asyncio.run(main()), daemon=True)
    thread.start()
    assert ready.wait(60), "the peer did not start"
    port = ports[0]
    if isinstance(port, BaseException):
        raise port
    try:
        yield port
    finally:
        loops[0].call_soon_threadsafe(stop.set)
        thread.join(30)
