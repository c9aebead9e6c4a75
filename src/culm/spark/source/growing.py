"""Following what grows on a disk: stores, row by row, and a folder into which bundles are dropped, file by file.

*Stores.* Both tables of a store, of entries and of fork proofs, have row ids that only grow. An offset is the last row
id that was read of each table. Changes of a row do not change its id: a stream does not tell when a payload arrives
later, or is forgotten.

*A folder.* An offset is the list of files that were read, with their sizes, so that Spark's checkpoint is all that
a stream needs, on any storage, and a batch that is made again has the same files. The list has only files that lie in
the folder, and those that left it within a day: so it stays short if files are moved away after a while. A day, because
a file that only seems to be gone, behind a disk that was unmounted for an hour, must not be read twice.

A file that is still being written must not be read half. Files that are renamed into the folder, or put into a bucket,
are never seen unfinished; but some people copy. A bundle and a Parquet file have an end that tells; any other
file, and one whose end is missing, has to be left unchanged for a minute. After that a cut file is damage, and is read
as far as it goes, with a reject that says so.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from culm.errors import ConfigError
from culm.spark.reading import inputs
from culm.spark.reading.borders import has_end
from culm.spark.reading.inputs import Part, Piece
from culm.spark.source.rows import Options, Pieces, SupportsTriggerAvailableNow
from culm.spark.storage import Listed, Location, opened_store

# -- stores ------------------------------------------------------------------------------------------------------

Rows = dict[str, int]
"""How far stores were read: the last row id of each table."""


class StoreStream(Pieces, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the rows that stores got since an offset. ``ConfigError`` for a path that is not a file."""

    def __init__(self, paths: Sequence[str], options: Options) -> None:
        super().__init__(options)
        self._tables = {f"{path}#{part.value}": (path, part) for path in paths for part in (Part.ENTRIES, Part.FORKS)}
        self._until: Rows | None = None
        for path in paths:
            if not Path(path).is_file():
                raise ConfigError(f"{path}: cannot be followed; a stream reads a store, a folder, or a peer")

    def initialOffset(self) -> Rows:
        """Before the first row of every table."""
        return dict.fromkeys(self._tables, 0)

    def prepareForTriggerAvailableNow(self) -> None:
        """Note how far the stores go now; the query ends there, even if they grow meanwhile."""
        self._until = self._greatest()

    def latestOffset(self, start: Rows | None = None, limit: object = None) -> Rows:
        """The end of the next batch: at most ``batch`` row ids further in each table; all there is in PySpark 4.1."""
        latest = self._until or self._greatest()
        if start is None:
            return latest
        return {key: min(latest[key], start.get(key, 0) + self._options.batch) for key in latest}

    def _greatest(self) -> Rows:
        latest = {}
        for key, (path, part) in self._tables.items():
            with opened_store(Location(path)) as database:
                latest[key] = inputs.greatest_id(database.connection, part.value)
        return latest

    def partitions(self, start: Rows, end: Rows) -> Sequence[InputPartition]:
        """The row ids between two offsets, cut into tasks."""
        return [
            InputPartition((Piece(path, part, *rows),))
            for key, (path, part) in self._tables.items()
            for rows in inputs.cut(start.get(key, 0) + 1, end[key], inputs.ROWS)
        ]


# -- a folder ----------------------------------------------------------------------------------------------------

_SETTLED_SECONDS = 60.0  # without a change, before a file counts as finished that does not say so itself
_GONE_SECONDS = 24 * 3600.0  # before a file that is gone is forgotten, and would be read anew if it came back
_MOST_FILES = 100_000  # in an offset. Spark keeps a hundred offsets as text, each with all names
_AGAIN = "what it has now is not read: drop it again under another name"

Sizes = dict[str, int | None]
"""Files by their names in the folder, and their sizes."""


class Offset(TypedDict):
    """The files of a folder that were read; and when those that are gone went."""

    files: Sizes
    gone: dict[str, int]


BEGINNING = Offset(files={}, gone={})


class FolderStream(Pieces, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the files that come into a folder. ``ConfigError`` if there is no such folder."""

    def __init__(self, folder: Location, options: Options) -> None:
        self._folder = folder
        super().__init__(options)
        self._until: Sizes | None = None
        self._listed()

    def initialOffset(self) -> Offset:  # type: ignore[override]  # it is a dict
        """Before the first file."""
        return BEGINNING

    def prepareForTriggerAvailableNow(self) -> None:
        """Note which files are there now; the query ends with them."""
        self._until = self._listed()

    def latestOffset(self, start: Offset | None = None, limit: object = None) -> Offset:  # type: ignore[override]
        """The end of the next batch: finished files, by name, of about ``batch`` entries; the start if there is none.

        ``ConfigError`` if the folder has more files than an offset can name.
        """
        start = start or BEGINNING
        there = self._listed() if self._until is None else self._until
        taken: Sizes = {}
        room = self._options.batch * inputs.ROW_BYTES
        for name, size in _new(start["files"], there):
            if room > 0 and self._is_finished(name, size):
                taken[name] = size
                room -= size or 0
        if not taken:
            return start
        now = int(time.time())
        away = {name: start["gone"].get(name, now) for name in start["files"].keys() - there}
        gone = {name: since for name, since in sorted(away.items()) if now - since < _GONE_SECONDS}
        files = {name: size for name, size in start["files"].items() if name in there or name in gone} | taken
        if len(files) > _MOST_FILES:
            raise ConfigError(f"{self._folder}: more than {_MOST_FILES} files: move those away that were read")
        return Offset(files=files, gone=gone)

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:  # type: ignore[override]
        """The files between two offsets, cut into tasks. ``ConfigError`` if one is gone before it was read."""
        system, root = self._folder.filesystem()
        chosen = _new(start["files"], end["files"])
        files: list[Listed] = []
        rejects: list[Piece] = []
        infos = system.get_file_info([f"{root.rstrip('/')}/{name}" for name, _ in chosen])
        for (name, size), info in zip(chosen, infos, strict=True):
            where = self._folder / name
            if info.type.name == "NotFound":
                raise ConfigError(f"{where}: it was to be read, and is gone: put it back, because its rows are missing")
            if name in start["files"] or info.size != size:
                change = f"changed from {start['files'].get(name, size)} to {info.size} bytes after it was listed"
                rejects.append(Piece(where.uri, Part.REJECT, reason=f"{change}; {_AGAIN}"))
            else:
                files.append(Listed(where, size, named=False))
        found = inputs.looked_at(files, self._options.wanted, stores=False)
        return [InputPartition(split) for split in inputs.shared([(*found, *rejects)])]

    def _listed(self) -> Sizes:
        """The files below the folder that are not hidden."""
        files = inputs.without_beside(self._folder.listed())
        if any(file.named for file in files):
            raise ConfigError(f"{self._folder}: cannot be followed; a stream reads a folder, a store, or a peer")
        root = len(self._folder.uri.rstrip("/")) + 1
        return {file.location.uri[root:]: file.size for file in files}

    def _is_finished(self, name: str, size: int | None) -> bool:
        """Whether nobody writes a file any longer: its end says so, or it has not changed for a while."""
        where = self._folder / name
        system, path = where.filesystem()
        info = system.get_file_info(path)
        if info.size != size or info.mtime is None or abs(time.time() - info.mtime.timestamp()) >= _SETTLED_SECONDS:
            return bool(info.size == size)
        with where.open() as stream:
            return has_end(stream)


def _new(before: Sizes, now: Sizes) -> list[tuple[str, int | None]]:
    """The files that are new, or have another size, by name."""
    return sorted(now.items() - before.items(), key=lambda file: file[0])
