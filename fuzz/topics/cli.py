"""What the command line is given: texts, messages to list, identities and backups from elsewhere."""

from __future__ import annotations

import io
import json
import shutil
import tarfile
from hashlib import blake2b

from culm.bamboo.base62 import encode_base62
from culm.cli import backup, identity
from culm.cli.nodeoptions import read_interest
from culm.cli.wire import decode as wire
from culm.errors import ConfigError, EncodingError, StoreDamaged
from culm.ranges import read_size
from fuzz import fresh
from fuzz.target import Target
from fuzz.topics import intervals, negentropy, proposals

_PROTOCOLS = sorted(wire._LISTINGS)  # noqa: SLF001 - what ``culm wire decode`` chooses from


def listing(data: bytes) -> None:
    """``culm wire decode`` lists a message of any protocol up to where it breaks, each part behind the one before."""
    protocol = _PROTOCOLS[data[0] % len(_PROTOCOLS)] if data else _PROTOCOLS[0]
    rows: list[dict[str, object]] = []
    try:
        wire._LISTINGS[protocol](data[1:], rows.append)  # noqa: SLF001
    finally:
        offsets = [row["offset"] for row in rows]
        assert offsets == sorted(offsets)  # type: ignore[type-var]
        for row in rows:
            for value in row.values():
                wire._short(value)  # noqa: SLF001


def interest(data: bytes) -> None:
    """What is followed is read, or refused."""
    what, ranges = read_interest(data.decode(errors="replace"))
    assert isinstance(what, bytes | tuple)
    assert len(ranges) >= 0


def size(data: bytes) -> None:
    """A size is a number of 64 bits, or refused."""
    assert 0 <= read_size(data.decode(errors="replace")) < 1 << 64


def imported(data: bytes) -> None:
    """An identity from elsewhere, in any of its three forms; a sealed one would ask for a passphrase."""
    text = data.decode("ascii", errors="replace").strip()
    if not text.startswith("{"):
        assert len(identity._parse_identity(text).public) == 32  # noqa: SLF001


def restored(data: bytes) -> None:
    """A backup is unpacked, file by file as its list says, or refused; nothing is ever written elsewhere."""
    source = fresh.file("backup.tar", data)
    target = fresh.folder() / "home"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    before = sorted(fresh.folder().iterdir())
    try:
        backup._unpack(source, target)  # noqa: SLF001 - what ``culm restore`` does before it looks at the store
    finally:
        assert sorted(fresh.folder().iterdir()) == before
        for path in target.rglob("*"):
            assert not path.is_symlink()
            assert path.is_dir() or backup._NAME.fullmatch(str(path.relative_to(target)))  # noqa: SLF001


def _archive(mode: str, contents: dict[str, bytes]) -> bytes:
    """A backup of these files."""
    files = {
        name: {"size": len(content), "blake2b": blake2b(content, digest_size=32).hexdigest()}
        for name, content in contents.items()
    }
    manifest = json.dumps({"culm-backup": 1, "files": files}).encode()
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode, format=tarfile.USTAR_FORMAT) as archive:  # type: ignore[call-overload]
        for name, content in {"backup.json": manifest, **contents}.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return out.getvalue()


def _messages() -> tuple[bytes, ...]:
    """A message of each protocol."""
    of = {
        "intervals": intervals.TARGETS[0].seeds[0],
        "negentropy": negentropy.TARGETS[0].seeds[0],
        "proposals-control": proposals.TARGETS[0].seeds[0],
        "proposals-data": proposals.TARGETS[1].seeds[0],
        "bymux": b"\x10\x00" + b"\x40\x01",
        "lzfoo": b"\x03abc\x85\x02",
    }
    return tuple(bytes([number]) + of[name] for number, name in enumerate(_PROTOCOLS))


_CONTENTS = {
    "store.db": b"not much",
    "identities/default": b"{}",
    "store.db-payloads/0a": b"a payload",
    "culm.toml": b"",
}
_BACKUPS = _archive("w", _CONTENTS), _archive("w:gz", _CONTENTS)
_NAME = encode_base62(bytes(range(32)))
_INTERESTS = _NAME, _NAME + b"/5 1..9; 20.. sparse", _NAME + b" 3.. max 64kB"
_IDENTITIES = bytes(range(32)).hex().encode(), _NAME
TARGETS = (
    Target("cli.listing", listing, (EncodingError,), _messages()),
    Target("cli.interest", interest, (ConfigError,), _INTERESTS, longest=6000, share=0.3),
    Target("cli.size", size, (ConfigError,), (b"1000", b"64kB", b"1MiB"), longest=6000, share=0.1),
    Target("cli.identity", imported, (ConfigError,), _IDENTITIES, longest=100, share=0.1),
    Target("cli.backup", restored, (StoreDamaged, ConfigError), _BACKUPS, longest=12_000),
)
