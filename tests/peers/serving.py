"""A loopback peer in a thread of its own, with its own event loop, so that it never holds up the client under test."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any, Protocol

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

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


@asynccontextmanager
async def listening(session: Callable[[ServerConnection], Awaitable[None]], **options: Any) -> AsyncIterator[int]:
    """A websocket server of its own on a free port of 127.0.0.1, with the options of ``websockets.serve``."""
    async with serve(session, "127.0.0.1", 0, close_timeout=1, **options) as server:
        yield next(iter(server.sockets)).getsockname()[1]


class Kept(Protocol):
    """What a peer keeps of one session."""

    faults: list[str]
    closed: bool


@contextmanager
def to_its_end(heard: Kept) -> Iterator[None]:
    """A session: that the client goes ends it, and whatever else breaks in it is a fault."""
    try:
        yield
    except ConnectionClosed:
        pass
    except Exception as error:
        heard.faults.append(f"{type(error).__name__}: {error}")
        raise
    finally:
        heard.closed = True


async def or_say_why(speak: Callable[[], Awaitable[None]], socket: ServerConnection, heard: Kept) -> None:
    """Speak while the session hears: a fault of the peer must not look like a silent agent."""
    try:
        await speak()
    except ConnectionClosed:
        pass
    except Exception as error:  # noqa: BLE001 - told to the client, and kept
        heard.faults.append(f"{type(error).__name__}: {error}")
        await socket.close(1011, "the peer failed")
