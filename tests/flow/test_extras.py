"""What a base installation can do, and what it says where an extra is missing; imports are blocked in a child."""

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ASSETS

HEAVY = (
    "torch", "torchaudio", "silero_vad", "onnxruntime", "kokoro_onnx", "espeakng_loader", "faster_whisper", "openai",
    "wandb", "submitit", "nemo",
)  # fmt: skip
BLOCK = f"import sys\nfor name in {HEAVY!r}: sys.modules[name] = None\n"


def run(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", BLOCK + code]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def main(arguments: str) -> str:
    return f"from dsbif.run import main\nsys.argv = ['dsbif', *{arguments.split()!r}]\nsys.exit(main())"


@pytest.mark.parametrize(
    "code",
    [
        main("--cfg job"),
        main("--help"),
        "from dsbif.bench.gates import main\nsys.exit(main())",
        "from dsbif.bench.grid import main\nsys.exit(main())",
        "from dsbif.build.lint import main\nsys.exit(main(['--instances', '1']))",
    ],
)
def test_a_base_installation_needs_no_heavy_package(code: str, tmp_path: Path) -> None:
    done = run(code, tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("code", "install"),
    [
        (main(f"model=silent voice=espeak tracker=none paths.assets={ASSETS}"), 'pip install "dsbif[speech]"'),
        (main(f"model=silent voice=kokoro tracker=none paths.assets={ASSETS}"), 'pip install "dsbif[speech]"'),
        (
            "import numpy\nfrom dsbif.audio.silero import speech_spans\nfrom dsbif.errors import DsbifError\n"
            "try: speech_spans(numpy.zeros(16000, 'f4'), 16000)\n"
            "except DsbifError as error: sys.exit(str(error))",
            'pip install "dsbif[speech]"',
        ),
        (
            "import pathlib\nfrom dsbif.agents.ears import Ears\nfrom dsbif.errors import DsbifError\n"
            "try: Ears(pathlib.Path('x'))\nexcept DsbifError as error: sys.exit(str(error))",
            'pip install "dsbif[cascade]"',
        ),
        (
            "from dsbif.agents.brain import LlmSettings, make_brain\nfrom dsbif.errors import DsbifError\n"
            "s = LlmSettings(base_url='http://127.0.0.1:9', model='m', api_key_env='X', temperature=0, max_tokens=1, "
            "timeout_s=1)\ntry: make_brain(s)\nexcept DsbifError as error: sys.exit(str(error))",
            'pip install "dsbif[cascade]"',
        ),
    ],
)
def test_a_missing_extra_says_which_command_installs_it(code: str, install: str, tmp_path: Path) -> None:
    done = run(code, tmp_path)
    assert done.returncode in (1, 2)
    assert install in done.stderr
    assert "Traceback" not in done.stderr
