"""NeMo's recogniser in a process of its own: requests on its input, answers on its output, one JSON object a line.

Run as a file by whatever interpreter has NeMo; imports nothing of dsbif. What NeMo prints goes to the error stream, so
that the output carries answers only.

    ← {"ready": "nemo 3.0.0"}     once the model is loaded, or {"missing": …} or {"failed": …}
    → {"wavs": [path, …]}         mono, 16 kHz
    ← {"texts": [text, …]}        or {"failed": …}, and the next request may come
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import IO, Any


def main() -> int:
    """Load the model, answer until the input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--device", required=True)
    parser.add_argument("--batch", type=int, required=True)
    asked = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        model, version = load(asked.model, asked.device)
    except ImportError as error:
        return _say(answers, {"missing": str(error)})
    except Exception as error:  # noqa: BLE001 - whatever a checkpoint or a hub may raise
        return _say(answers, {"failed": _words(error)})
    _say(answers, {"ready": version})
    for line in sys.stdin:
        try:
            _say(answers, {"texts": transcribe(model, json.loads(line)["wavs"], asked.batch)})
        except Exception as error:  # noqa: BLE001 - the next request may be better
            _say(answers, {"failed": _words(error)})
    return 0


def load(name: str, device: str) -> tuple[Any, str]:
    """The model, from a ``.nemo`` file or from the hub, and NeMo's version."""
    import nemo  # type: ignore[import-not-found]
    import torch
    from nemo.collections.asr.models import ASRModel  # type: ignore[import-not-found]

    device = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
    where = torch.device(device)
    if name.endswith(".nemo"):
        model = ASRModel.restore_from(name, map_location=where)
    else:
        model = ASRModel.from_pretrained(name, map_location=where)
    model.eval()
    return model, f"nemo {nemo.__version__}"


def transcribe(model: Any, wavs: list[str], batch: int) -> list[str]:
    """The words of each file, in order."""
    found = model.transcribe(wavs, batch_size=batch, verbose=False)
    if isinstance(found, tuple):  # older versions: best hypotheses, then all of them
        found = found[0]
    return [str(getattr(one, "text", one)) for one in found]


def _say(answers: IO[str], message: dict[str, Any]) -> int:
    print(json.dumps(message), file=answers, flush=True)
    return 0


def _words(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


if __name__ == "__main__":
    sys.exit(main())
