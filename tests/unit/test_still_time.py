"""The clock that the wires are tested on: it moves when everybody waits, and by no more than they wait for."""

import asyncio
import time

import pytest
from peers.serving import in_thread
from peers.still_time import still_time

TAKES_S = 0.05
"""Of real time."""


async def _now_s() -> float:
    return asyncio.get_running_loop().time()


def test_to_wait_takes_no_time_and_to_work_takes_none_of_its_time() -> None:
    async def main() -> list[float]:
        time.sleep(TAKES_S)
        at_s = [await _now_s()]
        await asyncio.gather(asyncio.sleep(3600.0), asyncio.sleep(5.0))
        return [*at_s, await _now_s()]

    began = time.monotonic()
    with still_time():
        assert asyncio.run(main()) == [0.0, 3600.0]
    assert time.monotonic() - began < 600


def test_a_peer_in_another_thread_answers_when_it_says_however_slow_it_is() -> None:
    """Each line is answered after 0.25 s, and each side is busy for a while before it writes."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            await asyncio.sleep(0.25)
            time.sleep(TAKES_S)
            writer.write(line)
        writer.close()

    class Server:
        async def __aenter__(self) -> int:
            self._server = await asyncio.start_server(answer, "127.0.0.1", 0)
            return int(self._server.sockets[0].getsockname()[1])

        async def __aexit__(self, *_: object) -> None:
            self._server.close()

    async def ask(port: int) -> list[float]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        answered_s = [await _now_s()]
        for _ in range(20):
            time.sleep(TAKES_S / 10)
            writer.write(b"well?\n")
            await reader.readline()
            answered_s.append(await _now_s())
        writer.close()
        return answered_s

    with still_time(), in_thread(Server) as port:
        first_s, *answered_s = asyncio.run(ask(port))
    assert answered_s == pytest.approx([first_s + 0.25 * number for number in range(1, 21)], abs=1e-9)


def test_a_loop_that_has_a_thread_at_work_is_not_idle() -> None:
    async def main() -> float:
        await asyncio.wait_for(asyncio.to_thread(time.sleep, TAKES_S), 0.001)
        return await _now_s()

    with still_time():
        assert asyncio.run(main()) == 0.0


def test_loops_are_as_ever_afterwards() -> None:
    with still_time():
        pass
    assert asyncio.run(_now_s()) == pytest.approx(time.monotonic(), abs=60)
