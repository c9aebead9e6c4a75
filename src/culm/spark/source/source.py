"""The class that Spark asks for readers and writers of ``format("culm")``, the reader of whole inputs, and the writer.

Entries are written as bundles: a file for each task, or for each log. Tasks write into a hidden folder beside the final
one, or in it if it lies elsewhere. When all have succeeded, the driver moves the files that they name; so a job that
fails leaves no file in the final folder, nor does a task that Spark ran twice. In an object store a move is a copy: if
the driver fails between two of them, some of the bundles are there, each of them whole. A driver that is killed leaves
the hidden folder behind, and a later job that writes to the same folder deletes it.
"""

import secrets
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from time import time
from typing import NamedTuple, TypeVar

import pyarrow as pa
from pyarrow import fs
from pyspark.sql import datasource
from pyspark.sql.types import StructType

from culm.bamboo import Entry
from culm.errors import ConfigError, CulmError, EncodingError
from culm.spark.reading.inputs import Split, plan
from culm.spark.source.growing import FolderStream, StoreStream
from culm.spark.source.peers import LiveStream, PeerStream
from culm.spark.source.rows import Options, Pieces, paths_of, schema_of
from culm.spark.storage import Location, located, said
from culm.store.files import BundleWriter
from culm.wire.places import log_text

T = TypeVar("T")


class CulmSource(datasource.DataSource):
    """``format("culm")``. ``ConfigError`` or ``StoreError`` for wrong options and for inputs that nobody can read."""

    @classmethod
    def name(cls) -> str:
        """The name in ``format("culm")``."""
        return "culm"

    def schema(self) -> str:
        """All columns, or those of the option ``columns``: Spark never tells a source which it will use."""
        return schema_of(Options.parse(self.options).columns)

    def reader(self, schema: StructType) -> datasource.DataSourceReader:
        """A reader of stores, export files and tables of entries. A schema that the user gave chooses columns, too."""
        options = Options.parse(self.options, schema)
        return EntriesReader(plan(paths_of(self.options), self.options, options.wanted, options.tasks), options)

    def writer(self, schema: StructType, overwrite: bool) -> datasource.DataSourceArrowWriter:
        """A writer of bundles into a folder."""
        (folder,) = located(paths_of(self.options), self.options)
        return BundlesWriter(folder, schema.names, overwrite=overwrite, by_log=Options.parse(self.options).by_log)

    def streamReader(self, schema: StructType) -> datasource.DataSourceStreamReader:
        """A stream of what stores, a folder or a ``culm://`` peer get; of others Spark asks ``simpleStreamReader``."""
        paths = paths_of(self.options)
        if all(path.startswith("intervals://") for path in paths):
            return super().streamReader(schema)  # It raises what makes Spark ask the other one.
        options = Options.parse(self.options, schema)
        if any(path.startswith("culm://") for path in paths):
            return LiveStream(_only(paths), options)
        places = located(paths, self.options)
        if any(not place.is_local or Path(place.uri).is_dir() for place in places):
            return FolderStream(_only(places), options)
        return StoreStream([place.uri for place in places], options)

    def simpleStreamReader(self, schema: StructType) -> datasource.SimpleDataSourceStreamReader:
        """A stream of what one peer gets; it is read by one task, since a peer has one connection."""
        return PeerStream(_only(paths_of(self.options)), Options.parse(self.options, schema))


def _only(inputs: Sequence[T]) -> T:
    """The input; ``ConfigError`` if there are several."""
    if len(inputs) != 1:
        raise ConfigError(f"{len(inputs)} inputs: a stream follows one peer or folder; make a stream for each")
    return inputs[0]


class EntriesReader(Pieces, datasource.DataSourceReader):
    """Reads splits in parallel, each in a task of its own."""

    def __init__(self, splits: Sequence[Split], options: Options) -> None:
        self._splits = splits
        super().__init__(options)

    def partitions(self) -> Sequence[datasource.InputPartition]:
        """A partition for each split, and one without anything if there are none: Spark would read one all the same."""
        return [datasource.InputPartition(split) for split in self._splits or [()]]


# -- writing -------------------------------------------------------------------------------------------------------

_BUFFER = 1024 * 1024  # bytes written at once, so that small entries do not cost a system call each
_DAY = 24 * 60 * 60  # seconds
_TOGETHER = "write df.repartition('author', 'log_id').sortWithinPartitions('author', 'log_id', 'seqnum')"


@dataclass
class Written(datasource.WriterCommitMessage):
    """The files that a task wrote."""

    names: list[str]


class _Row(NamedTuple):
    entry: Entry
    payload: bytes | None


class BundlesWriter(datasource.DataSourceArrowWriter):
    """Writes rows with a column ``encoded``, and perhaps ``payload``, into a folder of bundles.

    Without a URI the folder must be under the same path on all machines. Rows without an entry, such as rejects, cannot
    be written: the job fails and says so. With ``by_log`` the rows of each log must come together, in one task.
    ``ConfigError`` for a missing column and a folder that cannot be made.
    """

    def __init__(self, folder: Location, columns: Sequence[str], *, overwrite: bool, by_log: bool = False) -> None:
        self._folder, self._overwrite, self._by_log = folder, overwrite, by_log
        if "encoded" not in columns:
            raise ConfigError("to write entries, the DataFrame needs a binary column 'encoded'")
        # Object stores have no hidden folders beside a bucket, and moving within the folder is as good there.
        place, start = folder, "_partial-"
        if folder.is_local:
            place, start = Location(str(Path(folder.uri).parent)), f".{folder.name}.partial-"
        self._staging = place / f"{start}{secrets.token_hex(8)}"
        with said(folder.uri, "be written"):
            system, path = folder.filesystem()
            if system.get_file_info(path).type.name == "File":
                raise ConfigError(f"{folder}: is there already, and is not a folder")
            if folder.is_local and not Path(place.uri).is_dir():
                raise ConfigError(f"{folder}: there is no folder {place}")
            _sweep(system, place.filesystem()[1], start)
            # Made here, so that a task that is late after a failure does not make it again.
            system.create_dir(self._staging.filesystem()[1], recursive=True)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write the rows of one task; called in a worker."""
        token = secrets.token_hex(8)
        system, staging = self._staging.filesystem()
        names: list[str] = []
        for log, rows in groupby(_entries(iterator), key=lambda row: row.entry.log if self._by_log else None):
            name = f"part-{token}.bundle" if log is None else f"{log_text(log).replace('/', '-')}.{token}.bundle"
            if log is not None and name in names:
                raise CulmError(f"entries of the log {log_text(log)} are not together: {_TOGETHER}")
            names.append(name)
            with system.open_output_stream(f"{staging}/{name}", buffer_size=_BUFFER) as stream:
                bundle = BundleWriter(stream)
                for entry, payload in rows:
                    bundle.entry(entry)
                    if payload is not None:
                        bundle.payload(entry.place, len(payload), [payload])
                bundle.close()
        return Written(names)

    def commit(self, messages: list[datasource.WriterCommitMessage | None]) -> None:
        """Move the files of the tasks that succeeded into the folder; called on the driver when all are done.

        ``CulmError`` if two tasks had entries of one log and each log was to be one bundle.
        """
        written = [name for message in messages if isinstance(message, Written) for name in message.names]
        final = {name: name.split(".")[0] + ".bundle" if self._by_log else name for name in written}
        if len(set(final.values())) < len(final):
            self.abort(messages)
            raise CulmError(f"entries of one log are in several partitions: {_TOGETHER}")
        with said(self._folder.uri, "be written"):
            system, folder = self._folder.filesystem()
            staging = self._staging.filesystem()[1]
            system.create_dir(folder, recursive=True)
            before = {old.location.filesystem()[1] for old in self._folder.listed()} if self._overwrite else set()
            for name in written:
                system.move(f"{staging}/{name}", f"{folder}/{final[name]}")
            for old in before - {f"{folder}/{name}" for name in final.values()}:
                system.delete_file(old)
            system.delete_dir(staging)

    def abort(self, messages: list[datasource.WriterCommitMessage | None]) -> None:
        """Remove the files of all tasks; called on the driver when the job has failed."""
        with suppress(OSError):
            system, staging = self._staging.filesystem()
            system.delete_dir(staging)


def _sweep(system: fs.FileSystem, folder: str, start: str) -> None:
    """Delete what killed jobs left under names that begin so.

    No lock tells whether a job is at work: its processes are on many machines. So what did not change for a day goes.
    """
    for one in system.get_file_info(fs.FileSelector(folder, allow_not_found=True)):
        if one.base_name.startswith(start):
            with suppress(OSError):  # another job sweeps, too, or it is another user's
                below = system.get_file_info(fs.FileSelector(one.path, recursive=True))
                changed = [info.mtime_ns for info in (one, *below) if info.mtime_ns]  # not every storage says when
                if changed and max(changed) < (time() - _DAY) * 1e9:
                    system.delete_dir(one.path)


def _entries(batches: Iterator[pa.RecordBatch]) -> Iterator[_Row]:
    """The entries of the rows, each with its payload if there is one; ``CulmError`` for a row that is no entry."""
    for batch in batches:
        names = [name for name in ("encoded", "payload") if name in batch.schema.names]
        for row in batch.select(names).to_pylist():
            try:
                yield _Row(Entry.decode(row["encoded"] or b""), row.get("payload"))
            except EncodingError as error:
                reason = f"because it is not an entry: {error}"
                if row["encoded"] is None:
                    reason = "because it has no entry: leave out the rejects (WHERE reason IS NULL)"
                raise CulmError(f"a row cannot be written, {reason}") from error
