"""A file or folder by its path or URI, with what opening it needs. Locations can be sent to workers.

Paths on this machine are absolute, as workers have working directories of their own. ``s3a://bucket/key`` and other
URIs stay as the user wrote them, so that ``source`` in a table is what the user knows. As with Hadoop, nothing in
a URI is decoded: ``%20`` are three letters of a name.

Files whose names begin with ``.`` or ``_`` are hidden, and so are folders: Spark, Hadoop and Culm name what is not
finished that way. A file that is named itself is never hidden.

*Stores of other machines.* SQLite opens files of this machine's disk only, so such a store is copied here first.

A copy is made once a machine, however many tasks read it: its name is made of the URI, the size and the time of the
last change, and a task that finds another one copying waits for it. Copies that nobody used for a day are deleted, and
the least recently used ones when all together take more than ``_MOST_BYTES``. What a task has open is never deleted,
because it holds the copy's lock; the lock ends with its process.
"""

import fcntl
import io
import os
import re
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from fnmatch import translate
from hashlib import sha256
from pathlib import Path
from shutil import rmtree
from typing import BinaryIO, NamedTuple, cast

from pyarrow import fs

from culm.errors import ConfigError, CulmError
from culm.spark.storage.filesystems import Settings, check_bucket, filesystem, said, scheme_of, settings_here
from culm.staging import staged_folder
from culm.store.database import Database
from culm.store.opening import open_database

_BUFFER = 4 * 1024 * 1024  # Bytes in one request to another machine; small requests take no less time.
_GLOB = re.compile(r"[*?\[{]")
_MOST_BYTES = 100 * 1024**3  # on this machine's disk; a store that is larger is copied all the same, alone
_DAY = 24 * 60 * 60  # seconds
_BESIDE = ("-wal", "-payloads")  # what belongs to a store: its newest transactions, and its large payloads


class Listed(NamedTuple):
    """A file that a listing found, and its size in bytes; None if it is no regular file, such as a pipe.

    ``named``: the user named it, rather than a folder or a glob.
    """

    location: "Location"
    size: int | None
    named: bool


@dataclass(frozen=True, slots=True)
class Location:
    """Where a file or folder is: an absolute path of this machine, or a URI; and the settings to open it."""

    uri: str
    settings: Settings = field(default=(), repr=False, compare=False, kw_only=True)

    def __str__(self) -> str:
        """The path or URI."""
        return self.uri

    def __truediv__(self, name: str) -> "Location":
        """What lies in this folder under a name."""
        return Location(f"{self.uri.rstrip('/')}/{name}", settings=self.settings)

    @property
    def name(self) -> str:
        """The last part."""
        return self.uri.rstrip("/").rpartition("/")[2]

    @property
    def is_local(self) -> bool:
        """Whether it is a path on this machine."""
        return not scheme_of(self.uri)

    def filesystem(self) -> tuple[fs.FileSystem, str]:
        """Arrow's file system for it, and the path there. ``ConfigError`` if nothing knows the scheme."""
        return filesystem(self.uri, self.settings)

    def open(self, buffer: int = _BUFFER) -> BinaryIO:
        """The file as a stream that can seek. ``ConfigError``, naming it, if it cannot be opened.

        ``buffer``: how many bytes one request to another machine fetches, at least.
        """
        with said(self.uri):
            if self.is_local:
                return Path(self.uri).open("rb")
            system, path = self.filesystem()
            return cast("BinaryIO", io.BufferedReader(system.open_input_file(path), buffer))

    def listed(self) -> Iterator[Listed]:
        """The files that it means: itself, all files below a folder, or those that a glob matches.

        In a glob ``*`` and ``?`` match within a name, ``[ab]`` one letter, ``{a,b}`` either word, and ``**`` any number
        of folders. A file that has such letters in its name can be named as it is. ``ConfigError`` if nothing is there.
        """
        with said(self.uri):
            system, path = self.filesystem()
            info = system.get_file_info(path)
            is_there, is_glob = info.type != fs.FileType.NotFound, _GLOB.search(path)
            found = [info] if is_there else _matching(system, path) if is_glob else []
            if not found:
                check_bucket(self.uri, system, path)
                raise ConfigError(f"{self.uri}: {'nothing matches' if is_glob else 'there is no such file or folder'}")
            files = {self._other(path, one): size for match in found for one, size in _below(system, match)}
            yield from (Listed(one, size, named=is_there and info.is_file) for one, size in files.items())

    def _other(self, own: str, path: str) -> "Location":
        """The location of another path of the same file system; ``own`` is the path of this location."""
        below = re.sub(r"^[^/]+://[^/]*", "", self.uri)
        root = len(own.rstrip("/")) - len(below)  # of the path: a bucket's name, which the URI has as its authority
        return Location(self.uri.removesuffix(below) + path[root:], settings=self.settings)


def located(places: Iterable[str | os.PathLike[str]], given: Mapping[str, str] | None = None) -> list[Location]:
    """The locations of paths and URIs, each once. ``given`` are settings that win over all others."""
    texts = [re.sub(r"^file:(//(localhost)?(?=/))?", "", os.fspath(place)) for place in places]
    settings = settings_here(given) if any(map(scheme_of, texts)) else ()
    uris = (text.rstrip("/") if scheme_of(text) else str(Path(text).absolute()) for text in texts)
    return [Location(uri, settings=settings) for uri in dict.fromkeys(uris)]


def target(place: str | os.PathLike[str]) -> Path | Location:
    """Where results go: a path of this machine, or the location of a URI."""
    (found,) = located([place])
    return Path(found.uri) if found.is_local else found


def _matching(system: fs.FileSystem, pattern: str) -> list[fs.FileInfo]:
    """What a pattern matches, in order. Only folders that can match are listed."""
    names = re.sub(r"(/\*\*)+$", "", pattern).split("/")  # all that is below a folder is what the folder means
    fixed = next((at for at, name in enumerate(names) if _GLOB.search(name)), len(names))
    base = "/".join(names[:fixed]) or "/"
    found = [fs.FileInfo(base, fs.FileType.Directory)]
    for at, name in enumerate(names[fixed:], fixed):
        wanted, every, is_last = _regex(name), name == "**", at == len(names) - 1
        folders = [fs.FileSelector(folder.path, allow_not_found=True, recursive=every) for folder in found]
        below = (one for folder in folders for one in system.get_file_info(folder) if wanted.fullmatch(one.base_name))
        found = (found if every else []) + [one for one in below if is_last or one.type == fs.FileType.Directory]
    return sorted({one.path: one for one in found if not _is_hidden(one.path, base)}.values(), key=lambda one: one.path)


def _below(system: fs.FileSystem, info: fs.FileInfo) -> Iterator[tuple[str, int | None]]:
    """A file, or what is below a folder and not hidden, with sizes."""
    root = info.path.rstrip("/")
    if info.is_file:
        yield info.path, info.size
    elif info.type != fs.FileType.Directory:
        raise ConfigError(f"{root}: not a regular file; copy its content into one")
    else:
        files = _local_files(root)
        if not isinstance(system, fs.LocalFileSystem):
            found = system.get_file_info(fs.FileSelector(root, recursive=True))
            files = ((one.path, one.size or 0) for one in found if one.type != fs.FileType.Directory)
        yield from sorted(one for one in files if not _is_hidden(one[0], root))


def _local_files(root: str) -> Iterator[tuple[str, int | None]]:
    """Arrow would pass over links that lead nowhere, and nothing is to be left out silently."""

    def fail(error: OSError) -> None:
        raise error

    for base, _, names in os.walk(root or "/", onerror=fail, followlinks=True):
        for path in (Path(base, name) for name in names):
            yield str(path), path.stat().st_size if path.is_file() else None


def _is_hidden(path: str, base: str) -> bool:
    return any(part.startswith((".", "_")) for part in path[len(base.rstrip("/")) :].split("/"))


def _regex(name: str) -> re.Pattern[str]:
    """A pattern for one name, as Hadoop has them: ``*``, ``?``, ``[a-c]``, ``[!a]``, ``{one,two}``."""
    found = re.search(r"\{([^{}]*)\}", name)
    if found is None:
        return re.compile(translate(name.replace("[^", "[!")))
    words = (name[: found.start()] + word + name[found.end() :] for word in found[1].split(","))
    return re.compile("|".join(_regex(word).pattern for word in words))


# -- copies ---------------------------------------------------------------------------------------------------


@contextmanager
def naming(location: Location, copy: Path) -> Iterator[None]:
    """Let Culm's errors in this block name a location, and not the copy of it that is read."""
    try:
        yield
    except CulmError as error:
        error.args = tuple(str(one).replace(str(copy), location.uri) for one in error.args)
        raise


def copy_to(copy: Path, system: fs.FileSystem, path: str) -> None:
    """Copy a file or folder of a file system to this machine."""
    if system.get_file_info(path).type == fs.FileType.Directory:
        copy.mkdir()
    fs.copy_files(path, str(copy), system, fs.LocalFileSystem())


@contextmanager
def local_copy(location: Location) -> Iterator[Path]:
    """The path of a store on this machine during this block: its own, or that of a copy.

    ``ConfigError``, naming the URI, if it cannot be copied.
    """
    if location.is_local:
        yield Path(location.uri)
        return
    system, path = location.filesystem()
    with said(location.uri):
        info = system.get_file_info(path)
        if info.size is None:
            raise FileNotFoundError(location.uri)
    folder = _folder()
    changed = system.handler.fs.ukey(path) if isinstance(system, fs.PyFileSystem) else info.mtime_ns
    key = sha256(f"{location.uri}\n{info.size}\n{changed}".encode()).hexdigest()[:40]
    with _locked(folder / f"{key}.lock", fcntl.LOCK_EX) as lock:
        copy = folder / key / location.name
        if not copy.exists():
            _sweep(folder, info.size)
            with said(location.uri, "be copied to this machine"):
                _copy(system, path, folder / key, location.name)
        os.utime(lock)
        fcntl.flock(lock, fcntl.LOCK_SH)
        with naming(location, copy):
            yield copy


@contextmanager
def opened_store(location: Location) -> Iterator[Database]:
    """A store, to read it; ``StoreError`` that names the location, even if a copy of it is read."""
    with local_copy(location) as path, closing(open_database(path, read_only=True)) as database:
        yield database


def _copy(system: fs.FileSystem, path: str, folder: Path, name: str) -> None:
    """Copy a store and what is beside it into a new folder, which appears when all of it is there."""
    rmtree(folder, ignore_errors=True)
    with staged_folder(folder) as staged:
        for suffix in (*_BESIDE, ""):
            if not suffix or system.get_file_info(path + suffix).type != fs.FileType.NotFound:
                copy_to(staged / f"{name}{suffix}", system, path + suffix)
        staged.rename(folder)


def _folder() -> Path:
    """The folder of all copies: on Spark's local disk where that is set, else where temporary files are."""
    base = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or tempfile.gettempdir()
    folder = Path(base) / f"culm-stores-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():  # anybody may write to a temporary folder
        raise ConfigError(f"{folder}: belongs to another user; set TMPDIR to a folder of your own")
    return folder


@contextmanager
def _locked(path: Path, kind: int) -> Iterator[int]:
    """The descriptor of a lock file, locked. Its file may be deleted while this waits; it is made again then."""
    while True:
        with path.open("a") as file:
            fcntl.flock(file, kind)
            if path.exists() and path.stat().st_ino == os.fstat(file.fileno()).st_ino:
                yield file.fileno()
                return


def _sweep(folder: Path, needed: int) -> None:
    """Delete copies that nobody uses: old ones, and more until ``needed`` bytes fit below the limit."""
    locks = sorted(folder.glob("*.lock"), key=lambda path: path.stat().st_mtime)
    sizes = {lock: sum(file.stat().st_size for file in lock.with_suffix("").rglob("*")) for lock in locks}
    total = sum(sizes.values()) + needed
    for path, size in sizes.items():
        if path.stat().st_mtime <= time.time() - _DAY or total > _MOST_BYTES:
            with suppress(BlockingIOError), _locked(path, fcntl.LOCK_EX | fcntl.LOCK_NB):
                rmtree(path.with_suffix(""), ignore_errors=True)
                path.unlink()
                total -= size
