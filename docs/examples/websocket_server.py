"""An agent behind dsbif's websocket protocol: after 0.6 s of quiet it says what it heard. Needs numpy, websockets."""

import asyncio
import json
import sys

import numpy as np
from websockets.asyncio.server import ServerConnection, serve

RATE_HZ = 16_000  # of your choice: dsbif resamples
QUIET_SAMPLES = int(0.6 * RATE_HZ)


async def session(socket: ServerConnection) -> None:
    """One conversation, from its first message to its last."""
    start = json.loads(await socket.recv())
    print("a session begins; its prompt:", start["prompt"] or "(none)", flush=True)
    # An agent that uses the prompt says "full", one that sends its words as {"type": "text"} says "native".
    about = {"name": "echo", "conditioning": "none", "transcript": "none"}
    await socket.send(json.dumps({"type": "ready", "sample_rate_hz": RATE_HZ, **about}))
    heard, quiet = np.zeros(0, np.int16), 0
    async for message in socket:
        if isinstance(message, str):
            continue  # {"type": "stop"}: the connection ends next
        pcm = np.frombuffer(message, "<i2")
        quiet = 0 if np.abs(pcm.astype(int)).max(initial=0) > 300 else quiet + len(pcm)
        if quiet == 0 or len(heard):
            heard = np.concatenate([heard, pcm])
        if len(heard) and quiet >= QUIET_SAMPLES:
            await socket.send(heard[:-quiet].tobytes())  # as fast as you like: it is played in real time
            await socket.send(json.dumps({"type": "turn_done"}))
            heard = heard[:0]


async def main(port: int) -> None:
    """Serve on this machine until interrupted; port 0 is any that is free."""
    async with serve(session, "127.0.0.1", port, max_size=None) as server:
        print(f"listening on ws://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 8765))
