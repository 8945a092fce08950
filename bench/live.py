"""Sixteen live sessions in one process: how late frames go out, and whether the clock drifts.

``python -m bench.live [sessions] [seconds]``. The agent is an echo over TCP in another process; every session also
listens for the agent's onset, as in a barge-in. A clock that drifted would show as lateness that grows.
"""

import asyncio
import contextlib
import multiprocessing
import sys
import time
from collections.abc import AsyncIterator
from multiprocessing.connection import Connection

import numpy as np

from dsbif.bench.actions import Action
from dsbif.bench.case import Case, TimedSegment, UserTurn
from dsbif.bench.levels import Level
from dsbif.bench.windows import WindowMode
from dsbif.session.agent import AgentAudio, AgentFacts, Emission
from dsbif.session.live import LiveDriver
from dsbif.session.pcm import SAMPLE_RATE_HZ, Pcm
from dsbif.session.running import Episode, Stage, Take
from dsbif.session.user import Pacing
from dsbif.session.watch import SileroWatch
from dsbif.spans import Span


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(4096):
            writer.write(data)
    writer.close()


def _serve(port: Connection) -> None:
    async def main() -> None:
        server = await asyncio.start_server(_echo, "127.0.0.1", 0)
        port.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(main())


class EchoAgent:
    """PCM16 out, PCM16 in."""

    def __init__(self, port: int) -> None:
        self.facts = AgentFacts("echo", "none", "none")
        self._port = port

    async def open(self, prompt: str, seed: int) -> "EchoSession":
        return EchoSession(*await asyncio.open_connection("127.0.0.1", self._port))

    async def close(self) -> None:
        pass


class EchoSession:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def send(self, pcm: Pcm) -> None:
        self._writer.write((pcm * 32_767).astype("<i2").tobytes())
        await self._writer.drain()

    async def emissions(self) -> AsyncIterator[Emission]:
        while True:
            data = await self._reader.readexactly(960)
            yield AgentAudio(np.frombuffer(data, "<i2").astype(np.float32) / 32_768)

    async def close(self) -> None:
        self._writer.close()


def _episode(number: int, seconds: float) -> Episode:
    """A barge-in that comes late, so that the agent's channel is listened to until the end of the turn."""
    samples = round(seconds * SAMPLE_RATE_HZ)
    span = Span(0.0, seconds)
    turn = UserTurn("x.wav", "0" * 64, samples, (TimedSegment("s1", "speech", "x", span),))
    case = Case(
        test_case_id=f"c{number}", conversation_id=f"c{number}", role="R1", role_name="x", probe="C3", instance=1,
        level=Level.L2, expected_action=Action.YIELD, l4_expected=None, system_prompt="", voice="x", turn1=turn,
        turn2=turn, barge_in_after_s=1.0, window=span, window_mode=WindowMode.CAUSAL, readback=(), verifier_params={},
    )  # fmt: skip
    noise = np.random.default_rng(number).normal(0, 0.05, samples).astype(np.float32)
    return Episode(case, noise, noise)


def main() -> None:
    sessions = int(sys.argv[1]) if len(sys.argv) > 1 else 16
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 20.0
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=_serve, args=(theirs,), daemon=True)
    server.start()
    takes: list[Take] = []
    agent = EchoAgent(ours.recv())
    stage = Stage(Pacing(1.0, 1.0, 8.0), SileroWatch)
    began, busy = time.perf_counter(), time.process_time()
    LiveDriver(agent, stage, takes.append, sessions).run([_episode(n, seconds) for n in range(sessions)])
    wall, busy = time.perf_counter() - began, time.process_time() - busy
    server.kill()
    late = [take.recording.lateness_ms for take in takes]
    worst = {name: max(one[name] for one in late) for name in ("p50", "p99", "max")}
    longest_s = max(take.recording.samples for take in takes) / SAMPLE_RATE_HZ
    whole = sum(take.recording.status == "ok" for take in takes)
    print(f"{sessions} sessions of {longest_s:.1f} s in one process: {whole} whole; {busy / wall:.0%} of a core")
    print("frames late, in the worst session: " + ", ".join(f"{name} {ms:.2f} ms" for name, ms in worst.items()))
    print(f"wall {wall:.2f} s for {longest_s:.2f} s of session, loading the detector and closing included")


if __name__ == "__main__":
    main()
