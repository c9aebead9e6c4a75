"""``culm backup`` and ``culm restore``: a whole home in one file or folder.

::

    BACKUP/backup.json           size and BLAKE2b-256 of every file
    BACKUP/store.db, store.db-payloads/NAME, identities/NAME, policy.json, names.json, culm.toml

An archive has the same files, ``backup.json`` first. Nodes can keep writing meanwhile, because the copy of the store is
of one moment (``culm.store.copying``). The backup is made beside its place and renamed when it is complete and on the
disk (see ``culm.staging``). A file with a backup's name is therefore always a whole one.

A restore works the same way. It unpacks beside the home, compares every checksum, verifies every signature, and
only then renames. It never writes into an existing home, because mixing an old log with a newer one would fork it.
For the same reason it marks the identities: they sign nothing before it is known that nothing newer exists
(``culm.store.confirming``).
"""

import argparse
import json
import os
import re
import sys
import tarfile
import zlib
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from hashlib import blake2b, file_digest
from io import BytesIO
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryDirectory
from typing import IO, BinaryIO, Literal

import culm
from culm.bamboo.decimal import size_text
from culm.cli.command import Commands
from culm.cli.output import counted, note, open_input, print_json
from culm.cli.progress import progress_bar
from culm.errors import ConfigError, StoreDamaged
from culm.node.home import Home
from culm.staging import staged_folder, sync
from culm.store import SQLiteStore
from culm.store.copying import StoreCopy, copy_store

_VERSION = 1  # of the format; another number means that this program would misread the files
_MANIFEST = "backup.json"
# Bytes, for about a million payload files; the limit keeps a forged one out of memory.
# Bytes of a manifest: half a million large payloads. Each takes a line of more than ``_LEAST_LINE`` bytes. A manifest
# with more objects or texts than that allows is none, and reading it would take many times its size in memory.
_MAX_MANIFEST = 64 * 1024 * 1024
_LEAST_LINE = 100
_MOST_QUOTES = 8  # in a line: a name, two keys, a checksum
_PIECE = 1024 * 1024  # bytes copied at once
_ARCHIVES = (".tar", ".tar.gz", ".tgz")
_Expected = tuple[int, str]  # size and hash of a file
# The files that a home can have. Any other name in a backup is refused, because "../../.ssh/authorized_keys" would be
# written outside of the home.
_NAME = re.compile(
    r"store\.db|policy\.json|names\.json|culm\.toml|(store\.db-payloads|identities)/[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"
)


def register(commands: Commands) -> None:
    """Add the commands of this module."""
    backup = commands.add("backup", _backup)
    backup.add_argument(
        "target",
        metavar="FILE|DIR",
        help="a name that ends with .tar, .tar.gz or .tgz is an archive, any other a folder; - writes a .tar to stdout",
    )
    restore = commands.add("restore", _restore)
    restore.add_argument(
        "source", metavar="FILE|DIR", help="the archive or folder that culm backup made; - is an archive from stdin"
    )


# -- making one ------------------------------------------------------------------------------------------------------


def _backup(arguments: argparse.Namespace) -> int:
    home, target = Home.find(arguments.home), Path(arguments.target)
    home.check()
    if arguments.target != "-" and os.path.lexists(target):
        raise ConfigError(f"{target} exists already, and a backup never overwrites anything: choose another name")
    config = home.config_path if arguments.config is None else Path(arguments.config)
    beside = _beside(target) if arguments.target != "-" else TemporaryDirectory(prefix="culm-")  # with mode 0700
    with beside as place, progress_bar("copying") as bar:
        staging = Path(place)
        folder = staging / "copy"
        folder.mkdir(mode=0o700)
        copied = copy_store(home.store_path, folder / "store.db", lambda size: bar.update(0, size))
        (folder / "store.db").chmod(0o600)
        for name in home.identity_names():
            _copy_private(home.path / "identities" / name, folder / "identities" / name)
        for path in (home.policy_file.path, home.names_file.path, config):
            if path.exists():
                _copy_private(path, folder / ("culm.toml" if path is config else path.name))
        _write_manifest(folder, copied)
        if arguments.target == "-":
            _pack(folder, sys.stdout.buffer, "w|")
            sys.stdout.buffer.flush()
        else:
            _put(folder, staging, target)
    names = home.identity_names()
    identities = counted(len(names), "identity")
    where = "stdout" if arguments.target == "-" else target
    told = f"backed up {counted(copied.entries, 'entry')} ({size_text(copied.size)}) and {identities} to {where}"
    if arguments.target == "-":
        note(told)
    elif arguments.json:
        print_json({"backup": str(target), **asdict(copied), "identities": names})
    else:
        print(told)
        note("keep the backup where only you can read it: it holds the secret keys of your identities")
    return 0


@contextmanager
def _beside(target: Path) -> Iterator[Path]:
    """A staging folder beside ``target``, deleted at the end; ``ConfigError`` if it cannot be made."""
    with ExitStack() as stack:
        try:
            staging = stack.enter_context(staged_folder(target))
        except OSError as error:
            raise ConfigError(f"cannot write {target}: {error.strerror}") from None
        yield staging


@contextmanager
def _private(path: Path) -> Iterator[BinaryIO]:
    """A new file with mode 0600, to write; it is on the disk at the end."""
    path.parent.mkdir(exist_ok=True, mode=0o700)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def _copy_private(source: Path, target: Path) -> None:
    with source.open("rb") as file, _private(target) as copy:
        copyfileobj(file, copy)


def _files(folder: Path) -> list[str]:
    """The names of all files, the manifest first."""
    names = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return sorted(names, key=lambda name: (name != _MANIFEST, name))


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, lambda: blake2b(digest_size=32)).hexdigest()


def _sync_folders(folder: Path) -> None:
    for path in [folder, *(path for path in folder.iterdir() if path.is_dir())]:
        sync(path)


def _write_manifest(folder: Path, copied: StoreCopy) -> None:
    files = {name: {"size": (folder / name).stat().st_size, "blake2b": _hash(folder / name)} for name in _files(folder)}
    document = {
        "culm-backup": _VERSION,
        "culm": culm.__version__,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "entries": copied.entries,
        "files": files,
    }
    with _private(folder / _MANIFEST) as file:
        file.write(json.dumps(document, indent=1).encode())
    _sync_folders(folder)


def _put(folder: Path, staging: Path, target: Path) -> None:
    """Make the backup appear at its place, as an archive or a folder."""
    if target.name.endswith(_ARCHIVES):
        with _private(staging / "packed") as file:
            _pack(folder, file, "w" if target.name.endswith(".tar") else "w:gz")
        (staging / "packed").rename(target)
    else:
        folder.rename(target)
    sync(target.parent)


def _pack(folder: Path, file: IO[bytes], mode: Literal["w", "w:gz", "w|"]) -> None:
    with tarfile.open(fileobj=file, mode=mode) as archive:
        for name in _files(folder):
            archive.add(folder / name, name, recursive=False)


# -- taking it back --------------------------------------------------------------------------------------------------


def _restore(arguments: argparse.Namespace) -> int:
    home, source = Home.find(arguments.home), Path(arguments.source)
    if home.path.exists() and (not home.path.is_dir() or any(home.path.iterdir())):
        raise ConfigError(
            f"{home.path} is not empty, and restore never overwrites a home: name a new folder with --home DIR"
        )
    home.path.absolute().parent.mkdir(parents=True, exist_ok=True)
    with _beside(home.path) as staging:
        folder = staging / "home"
        folder.mkdir(mode=0o700)
        _unpack(source, folder)
        (folder / "identities").mkdir(exist_ok=True, mode=0o700)
        with _opened(source, folder / "store.db") as store, progress_bar("verifying") as bar:
            report = store.verify(None, lambda entries: bar.update(entries, 0))
            for author in Home(folder).own_authors():
                store.unconfirm(author)
        if report.problems:
            place, reason = report.problems[0]
            raise StoreDamaged(
                f"{source}: the store in this backup is damaged: {reason}" + (f" ({place})" if place else "")
            )
        _sync_folders(folder)
        folder.rename(home.path)
        sync(home.path.absolute().parent)
    if arguments.json:
        print_json({"home": str(home.path), "entries": report.entries, "payloads": report.payloads})
    else:
        held = f"{counted(report.entries, 'entry')} and {counted(report.payloads, 'payload')}"
        print(f"restored {held} to {home.path} and verified all of it")
        if home.identity_names():
            note(
                "append refuses until you have synced with a peer that has your log, because you may have published"
                " after this backup was made; if you have not, append with --continue-here"
            )
    return 0


def _opened(source: Path, unpacked: Path) -> SQLiteStore:
    """The store of a backup; an error names the backup, because what was unpacked will be gone."""
    try:
        return SQLiteStore(unpacked)
    except StoreDamaged as error:
        raise StoreDamaged(str(error).replace(str(unpacked), str(source))) from None


def _unpack(source: Path, folder: Path) -> None:
    """Copy the files of a backup; ``StoreDamaged`` if one is missing or its checksum differs."""
    try:
        with closing(_contents(source)) as contents:
            name, file = next(contents, ("", BytesIO()))
            if name != _MANIFEST:
                raise ConfigError(f"{source} is not a backup: it does not begin with {_MANIFEST}")
            expected = _read_manifest(source, file)
            for name, file in contents:
                if (of_file := expected.pop(name, None)) is not None:
                    _take(source, name, file, of_file, folder)
        if expected:
            raise StoreDamaged(f"{source} is not a complete backup: {next(iter(expected))} is missing")
    except tarfile.ReadError as error:
        if "could not be opened" in str(error):
            raise ConfigError(f"{source} is not a backup: neither a folder nor a tar archive") from None
        raise StoreDamaged(f"{source} is not a complete backup: {error}") from None
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise StoreDamaged(f"{source} is not a complete backup: {error}") from None
    except OSError as error:
        raise ConfigError(f"cannot read {source}: {error.strerror or error}") from None


def _contents(source: Path) -> Generator[tuple[str, IO[bytes]]]:
    """The files of a folder or an archive, each with its name: those of a folder with the manifest first."""
    if source.is_dir():
        for name in _files(source):
            if (source / name).is_symlink() or (source / name).parent.is_symlink():
                raise StoreDamaged(f"{source}: {name} is a link, and a backup holds files only")
            with (source / name).open("rb") as file:
                yield name, file
        return
    with open_input(str(source)) as stream, tarfile.open(fileobj=stream, mode="r|*") as archive:
        for member in archive:
            if member.isfile() and (content := archive.extractfile(member)) is not None:
                yield member.name, content


def _read_manifest(source: Path, file: IO[bytes]) -> dict[str, _Expected]:
    data = file.read(_MAX_MANIFEST + 1)
    lines = len(data) // _LEAST_LINE + 10  # those before the files among them
    if len(data) > _MAX_MANIFEST or data.count(b"{") > lines or data.count(b'"') > _MOST_QUOTES * lines or b"[" in data:
        raise StoreDamaged(f"{source}: {_MANIFEST} is damaged")
    try:
        document = json.loads(data)
        if document["culm-backup"] != _VERSION:
            raise ConfigError(
                f"{source} is a backup of version {document['culm-backup']!r}; this program reads version {_VERSION}"
            )
        files = {
            str(name): (int(of_file["size"]), str(of_file["blake2b"])) for name, of_file in document["files"].items()
        }
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        raise StoreDamaged(f"{source}: {_MANIFEST} is damaged") from None
    if "store.db" not in files or not all(map(_NAME.fullmatch, files)):
        raise StoreDamaged(f"{source}: {_MANIFEST} lists a file that does not belong in a home")
    return files


def _take(source: Path, name: str, file: IO[bytes], expected: _Expected, folder: Path) -> None:
    """Copy a file of a backup; ``StoreDamaged`` if its size or checksum is not as expected."""
    left, digest = expected
    with _private(folder / name) as copy:
        while data := file.read(max(0, min(_PIECE, left))):
            left -= len(data)
            copy.write(data)
    if left or file.read(1) or _hash(folder / name) != digest:
        raise StoreDamaged(f"{source}: {name} has changed since the backup was made: its size or checksum differs")
