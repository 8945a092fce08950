"""The corpus as one file, so that everyone plays the same bytes: FLAC audio, manifest, scripts and checksums in a tar.

``python -m dsbif.build.archive [CORPUS] [FILE]`` packs a built corpus (default ``data/corpus`` into
``dist/dsbif-corpus-{engine}.tar``). ``data=archive data.path=FILE`` runs from it: every member is checked against
``SHA256SUMS``, and every decoded turn against the manifest. The same corpus always packs to the same bytes.
"""

import hashlib
import io
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path

from dsbif.audio.wav import read_wav, write_pcm16
from dsbif.bench.manifest import read_manifest
from dsbif.build.script import SCRIPTS_DIR
from dsbif.build.voices import RATE_HZ
from dsbif.errors import CaseError, DsbifError
from dsbif.files import sha256_of, whole_file, write_text

SUMS = "SHA256SUMS"
MANIFEST = "manifest.jsonl"
MAX_MEMBER_BYTES = 200 * 1024 * 1024


def pack(corpus: Path, target: Path) -> int:
    """Pack a corpus folder with its manifest; returns the number of turns.

    Raises:
        CaseError: no manifest, or audio that is not what the manifest names.
    """
    import soundfile

    cases = read_manifest(corpus / MANIFEST)
    turns = {turn.audio: turn for case in cases for turn in (case.turn1, case.turn2)}
    members: dict[str, bytes] = {MANIFEST: (corpus / MANIFEST).read_bytes()}
    for path in sorted(SCRIPTS_DIR.glob("*.yaml")):
        members[f"scripts/{path.name}"] = path.read_bytes()
    for audio, turn in sorted(turns.items()):
        if not (corpus / audio).is_file() or sha256_of(corpus / audio) != turn.sha256:
            raise CaseError(f"{corpus / audio} is missing or not what {MANIFEST} names; build the corpus again.")
        samples, rate_hz = soundfile.read(corpus / audio, dtype="int16")
        encoded = io.BytesIO()
        soundfile.write(encoded, samples, rate_hz, format="FLAC", subtype="PCM_16")
        members[f"{audio.removesuffix('.wav')}.flac"] = encoded.getvalue()
    sums = "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(members.items()))
    _write_tar(target, {SUMS: sums.encode(), **dict(sorted(members.items()))})
    return len(turns)


def _write_tar(target: Path, members: Mapping[str, bytes]) -> None:
    with whole_file(target) as temporary, tarfile.open(temporary, "w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), 0o644
            tar.addfile(info, io.BytesIO(data))


def unpack(archive: Path, into: Path) -> Path:
    """Unpack and verify an archive below ``into``; a folder named by its hash, reused when it is there.

    Raises:
        CaseError: no archive, a member that is missing, foreign, too large or changed, or audio that decodes to
            something else than the manifest names.
    """
    if not archive.is_file():
        raise CaseError(f"the corpus archive {archive} does not exist; data.path must name one.")
    home = into / sha256_of(archive)[:16]
    if (home / MANIFEST).is_file():
        return home
    members = _read_tar(archive)
    for name, data in members.items():
        if name.endswith(".flac"):
            _decode(archive, name, data, home / f"{name.removesuffix('.flac')}.wav")
    manifest = members[MANIFEST].decode("utf-8")
    write_text(home / "unchecked.jsonl", manifest)
    for case in read_manifest(home / "unchecked.jsonl"):
        for turn in (case.turn1, case.turn2):
            if not (home / turn.audio).is_file() or sha256_of(home / turn.audio) != turn.sha256:
                raise CaseError(f"{archive}: {turn.audio} is missing or does not decode to what {MANIFEST} names.")
    (home / "unchecked.jsonl").replace(home / MANIFEST)
    return home


def _read_tar(archive: Path) -> dict[str, bytes]:
    """Every member whose hash is right."""
    members: dict[str, bytes] = {}
    try:
        with tarfile.open(archive) as tar:
            for info in tar:
                if not info.isfile() or info.name.startswith("/") or ".." in Path(info.name).parts:
                    raise CaseError(f"{archive}: member {info.name!r} is no plain file inside the archive.")
                if info.size > MAX_MEMBER_BYTES:
                    raise CaseError(f"{archive}: member {info.name!r} has {info.size} bytes.")
                stream = tar.extractfile(info)
                members[info.name] = stream.read() if stream else b""
    except (tarfile.TarError, EOFError, OSError) as error:
        raise CaseError(f"the corpus archive {archive} cannot be read: {error}.") from error
    sums = dict(line.split("  ", 1)[::-1] for line in members.pop(SUMS, b"").decode().splitlines() if "  " in line)
    if MANIFEST not in sums or sums.keys() != members.keys():
        odd = sorted(sums.keys() ^ members.keys())[:3]
        raise CaseError(f"{archive}: {SUMS} and the members do not match ({', '.join(odd) or 'no manifest'}).")
    for name, data in members.items():
        if hashlib.sha256(data).hexdigest() != sums[name]:
            raise CaseError(f"{archive}: {name} is not what {SUMS} names; fetch the archive again.")
    return members


def _decode(archive: Path, name: str, data: bytes, target: Path) -> None:
    flac = target.with_suffix(".flac")
    with whole_file(flac) as temporary:
        temporary.write_bytes(data)
    try:
        samples, rate_hz = read_wav(flac)
        if rate_hz != RATE_HZ or samples.shape[1] != 1:
            raise CaseError(f"{archive}: {name} has {samples.shape[1]} channels at {rate_hz} Hz.")
        write_pcm16(target, samples[:, 0], rate_hz)
    finally:
        flac.unlink(missing_ok=True)


def main(arguments: list[str]) -> int:
    """Pack a corpus; 2 where it cannot be."""
    corpus = Path(arguments[0]) if arguments else Path("data/corpus")
    target = Path(arguments[1]) if len(arguments) > 1 else Path("dist/dsbif-corpus.tar")
    try:
        turns = pack(corpus, target)
    except DsbifError as error:
        print(f"dsbif: {error}", file=sys.stderr)
        return 2
    print(f"{target}: {turns} turns, {target.stat().st_size / 1e6:.1f} MB, sha256 {sha256_of(target)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
