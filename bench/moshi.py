"""What Moshi gains from a batch: seconds a frame of 80 ms at 1, 4 and 8 rows, and conversations an hour.

``python -m bench.moshi [weights] [device] [dtype] [rows…]``; by default the tiny random weights on a CPU. ``7b`` are
random weights of the released model's shape, 16 GB in bfloat16, which need no checkpoint and cost the same time:
``python -m bench.moshi 7b cuda bfloat16 1 8 16 32``. Every row is busy in every frame; an hour's conversations are of a
minute each, as the benchmark's mostly are.
"""

import sys
import time
from dataclasses import fields

import numpy as np
import yaml

from dsbif.agents.moshi import FRAME_SAMPLES, Moshi, MoshiSettings, Parts
from dsbif.agents.moshi_load import load_parts
from dsbif.agents.moshi_tiny import SEED, awaken
from dsbif.files import CONF_DIR
from dsbif.session.pcm import SAMPLE_RATE_HZ

RELEASED_SHAPE = "7b"

ROWS = (1, 4, 8)
FRAMES = 50
REPEATS = 3
FRAME_S = FRAME_SAMPLES / SAMPLE_RATE_HZ
CONVERSATION_S = 60.0


def seconds_a_frame(settings: MoshiSettings, rows: int, parts: Parts) -> float:
    """Of a batch with every row busy: the best of several runs, after one that warms up."""
    agent = Moshi(settings, rows, parts)
    pcm = np.random.default_rng(0).normal(0, 0.05, (FRAMES, rows, FRAME_SAMPLES)).astype(np.float32)
    busy = [True] * rows
    best = float("inf")
    try:
        for _ in range(1 + REPEATS):
            for row in range(rows):
                agent.start(row, "", row)
            agent.step(pcm[0], busy)  # the first frame after a start costs more
            started = time.perf_counter()
            for frame in pcm:
                agent.step(frame, busy)  # what it says is brought to the CPU: nothing is left running on the device
            best = min(best, (time.perf_counter() - started) / FRAMES)
    finally:
        agent.close()
    return best


def _settings(weights: str, device: str, dtype: str) -> MoshiSettings:
    """As in conf/model/moshi.yaml but for these."""
    known = yaml.safe_load((CONF_DIR / "model" / "moshi.yaml").read_text(encoding="utf-8"))
    own = {field.name: known[field.name] for field in fields(MoshiSettings)}
    return MoshiSettings(**{**own, "weights": weights, "device": device, "dtype": dtype})


def _random(settings: MoshiSettings) -> Parts:
    """The release's shapes, which are the package's defaults, with random weights: what it says is noise."""
    import torch
    from moshi.models import loaders

    torch.manual_seed(SEED)
    mimi = loaders.get_mimi(None, device=settings.device, num_codebooks=8)
    awaken(mimi)
    lm = loaders.get_moshi_lm(None, device=settings.device, dtype=getattr(torch, settings.dtype))
    return Parts(mimi, lm, lambda token: f"▁{token}", settings.device, {})


def main(weights: str = "tiny", device: str = "cpu", dtype: str = "float32", *rows: str) -> None:
    settings = _settings(weights, device, dtype)
    parts = _random(settings) if weights == RELEASED_SHAPE else load_parts(settings)  # once: 7b takes minutes
    print(f"{weights} on {_described(device)}, {dtype}")
    print(f"{'rows':>4} {'ms a frame':>11} {'× real time a row':>18} {'cases an hour':>14} {'against 1 row':>14}")
    alone = 0.0
    for count in [int(row) for row in rows] or ROWS:
        each_s = seconds_a_frame(settings, count, parts)
        cases = count * FRAME_S / each_s * 3600 / CONVERSATION_S
        alone = alone or cases / count
        print(f"{count:>4} {1000 * each_s:>11.2f} {FRAME_S / each_s:>18.1f} {cases:>14.0f} {cases / alone:>14.2f}")


def _described(device: str) -> str:
    import torch

    if not device.startswith("cuda"):
        threads = torch.get_num_threads()
        return f"{device}, {threads} thread{'s' if threads > 1 else ''}"
    return str(torch.cuda.get_device_name(device))


if __name__ == "__main__":
    main(*sys.argv[1:])
