"""Behind a peer that answers when its user is done: the voice is heard to the end of what it says."""

import numpy as np
from peers.voice import Voice

from dsbif.session.agent import AgentAudio, AgentText, Emission, Reply
from dsbif.session.pcm import FRAME_SAMPLES, Pcm

_SILENT_FRAMES = 150
"""3 s without an emission: it has nothing more to say."""


def hear_out(voice: Voice, pcm: Pcm) -> Reply:
    """What a voice says on hearing the user's side, float32 [n] at 24 kHz, and silence until it has finished."""
    whole = np.pad(pcm, (0, -len(pcm) % FRAME_SAMPLES))
    said: list[Emission] = []
    for start in range(0, len(whole), FRAME_SAMPLES):
        said += voice.hear(whole[start : start + FRAME_SAMPLES])
    quiet = 0
    while quiet < _SILENT_FRAMES:
        more = voice.hear(np.zeros(FRAME_SAMPLES, np.float32))
        said += more
        quiet = 0 if more else quiet + 1
    sound = [emission.pcm for emission in said if isinstance(emission, AgentAudio)]
    words = [emission.text for emission in said if isinstance(emission, AgentText)]
    return Reply(np.concatenate([np.zeros(0, np.float32), *sound]), " ".join(words), 0.0)
