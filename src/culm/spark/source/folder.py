"""Following a folder into which bundles are dropped: each file is read once, whole.

An offset is the list of files that were read, with their sizes, so that Spark's checkpoint is all that a stream needs,
on any storage, and a batch that is made again has the same files. The list has only files that lie in the folder, and
those that left it within a day: so it stays short if files are moved away after a while. A day, because a file that
only seems to be gone, behind a disk that was unmounted for an hour, must not be read twice.

A file that is still being written must not be read half. Files that are renamed into the folder, or put into a bucket,
are never seen unfinished; but some people copy. A bundle and a Parquet file have an end that tells; any other
file, and one whose end is missing, has to be left unchanged for a minute. After that a cut file is damage, and is read
as far as it goes, with a reject that says so.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TypedDict

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from culm.errors import ConfigError
from culm.spark.reading.borders import has_end
from culm.spark.reading.inputs import Part, Piece, Split, is_beside, plan_listed
from culm.spark.source.options import Options
from culm.spark.source.rows import Pieces
from culm.spark.source.trigger import SupportsTriggerAvailableNow
from culm.spark.storage import Location
from culm.spark.storage.location import Listed

_SETTLED_SECONDS = 60.0  # without a change, before a file counts as finished that does not say so itself
_GONE_SECONDS = 24 * 3600.0  # before a file that is gone is forgotten, and would be read anew if it came back
_MOST_FILES = 100_000  # in an offset. Spark keeps a hundred offsets as text, each with all names
_ENTRY_BYTES = 400  # about as many as an entry of a bundle has, without payload
_PARQUET_END = b"PAR1"
_STORE = "a store, which grows, and is not read with a folder that is followed: follow it by its own path"

_AGAIN = "what it has now is not read: drop it again under another name"


class Offset(TypedDict):
    """The files that were read, by their names in the folder, and their sizes; when those that are gone went."""

    files: dict[str, int | None]
    gone: dict[str, int]


BEGINNING = Offset(files={}, gone={})


class FolderStream(Pieces, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the files that come into a folder. ``ConfigError`` if there is no such folder."""

    def __init__(self, folder: Location, options: Options) -> None:
        self._folder = folder
        super().__init__(options)
        self._until: dict[str, int | None] | None = None
        self._listed()

    def initialOffset(self) -> Offset:  # type: ignore[override]  # noqa: N802 - Spark's name; a dict all the same
        """Before the first file."""
        return BEGINNING

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Note which files are there now; the query ends with them."""
        self._until = self._listed()

    def latestOffset(  # type: ignore[override]  # noqa: N802 - Spark's name
        self,
        start: Offset | None = None,
        limit: object = None,  # noqa: ARG002 - the option ``batch`` limits
    ) -> Offset:
        """The end of the next batch: finished files, by name, of about ``batch`` entries; the start if there is none.

        ``ConfigError`` if the folder has more files than an offset can name.
        """
        start = start or BEGINNING
        there = self._listed() if self._until is None else self._until
        taken: dict[str, int | None] = {}
        room = self._options.batch * _ENTRY_BYTES
        for name, size in _other(start["files"], there).items():
            if room > 0 and self._is_finished(name, size):
                taken[name] = size
                room -= size or 0
        if not taken:
            return start
        now = int(time.time())
        gone = {name: start["gone"].get(name, now) for name in start["files"] if name not in there}
        gone = {name: since for name, since in gone.items() if now - since < _GONE_SECONDS}
        files = {name: size for name, size in start["files"].items() if name in there or name in gone} | taken
        if len(files) > _MOST_FILES:
            raise ConfigError(f"{self._folder}: more than {_MOST_FILES} files: move those away that were read")
        return Offset(files=files, gone=gone)

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:  # type: ignore[override]
        """The files between two offsets, cut into tasks. ``ConfigError`` if one is gone before it was read."""
        system, root = self._folder.filesystem()
        chosen = _other(start["files"], end["files"])
        infos = system.get_file_info([f"{root.rstrip('/')}/{name}" for name in chosen])
        files: list[Listed] = []
        rejects: list[Piece] = []
        for (name, size), info in zip(chosen.items(), infos, strict=True):
            where = self._folder / name
            if info.type.name == "NotFound":
                raise ConfigError(f"{where}: it was to be read, and is gone: put it back, because its rows are missing")
            if name in start["files"] or info.size != size:
                change = f"changed from {start['files'].get(name, size)} to {info.size} bytes after it was listed"
                rejects.append(_reject(where.uri, f"{change}; {_AGAIN}"))
            else:
                files.append(Listed(where, size, named=False))
        splits = [_without_stores(split) for split in plan_listed(files, self._options.wanted)]
        return [InputPartition(split) for split in [*splits, *([tuple(rejects)] if rejects else [])]]

    def _listed(self) -> dict[str, int | None]:
        """The files below the folder that are not hidden, by their names there."""
        files = list(self._folder.listed())
        if any(file.named for file in files):
            raise ConfigError(f"{self._folder}: cannot be followed; a stream reads a folder, a store, or a peer")
        uris = {file.location.uri for file in files}
        root = len(self._folder.uri.rstrip("/")) + 1
        return {file.location.uri[root:]: file.size for file in files if not is_beside(file.location.uri, uris)}

    def _is_finished(self, name: str, size: int | None) -> bool:
        """Whether nobody writes a file any longer: its end says so, or it has not changed for a while."""
        where = self._folder / name
        system, path = where.filesystem()
        info = system.get_file_info(path)
        if info.size != size:
            return False
        age = None if info.mtime is None else abs(time.time() - info.mtime.timestamp())
        if age is None or age >= _SETTLED_SECONDS:
            return True
        with where.open() as stream:
            if stream.seek(0, 2) != size or size < len(_PARQUET_END):
                return False
            stream.seek(-len(_PARQUET_END), 2)
            return stream.read() == _PARQUET_END or has_end(stream)


def _other(before: dict[str, int | None], now: dict[str, int | None]) -> dict[str, int | None]:
    """The files that are new, or have another size."""
    return {name: size for name, size in now.items() if name not in before or before[name] != size}


def _reject(uri: str, reason: str) -> Piece:
    return Piece(uri, Part.REJECT, 0, 0, reason=reason)


def _without_stores(split: Split) -> Split:
    """A split with a reject in place of each store."""
    stores = (Part.ENTRIES, Part.FORKS, Part.LOGS)
    return tuple(dict.fromkeys(_reject(piece.path, _STORE) if piece.part in stores else piece for piece in split))
