"""What audio is at every seam of a session: mono float32 at 24 kHz, in steps of 20 ms."""

import numpy as np
from numpy.typing import NDArray

Pcm = NDArray[np.float32]
"""Samples in [-1, 1]."""
SAMPLE_RATE_HZ = 24_000
FRAME_SAMPLES = 480
"""20 ms at 24 kHz: the session's smallest step."""
