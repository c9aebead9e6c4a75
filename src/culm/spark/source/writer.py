"""Writing entries as bundles: a file for each task, or for each log.

Tasks write into a hidden folder beside the final one, or in it if it lies elsewhere. When all have succeeded, the
driver moves the files that they name; so a job that fails leaves no file in the final folder, nor does a task that
Spark ran twice. In an object store a move is a copy: if the driver fails between two of them, some of the bundles are
there, each of them whole.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from culm.bamboo import Entry
from culm.errors import ConfigError, CulmError, EncodingError
from culm.spark.storage import Location
from culm.spark.storage.filesystems import said
from culm.store.files import BundleWriter
from culm.wire.places import log_text

_BUFFER = 1024 * 1024  # bytes written at once, so that small entries do not cost a system call each
_TOGETHER = "write df.repartition('author', 'log_id').sortWithinPartitions('author', 'log_id', 'seqnum')"


@dataclass
class Written(WriterCommitMessage):
    """The files that a task wrote."""

    names: list[str]


class _Row(NamedTuple):
    entry: Entry
    payload: bytes | None


class BundlesWriter(DataSourceArrowWriter):
    """Writes rows with a column ``encoded``, and perhaps ``payload``, into a folder of bundles.

    Without a URI the folder must be under the same path on all machines. Rows without an entry, such as rejects, cannot
    be written: the job fails and says so. With ``by_log`` the rows of each log must come together, in one task.
    ``ConfigError`` for a missing column and a folder that cannot be made.
    """

    def __init__(self, folder: Location, columns: Sequence[str], *, overwrite: bool, by_log: bool = False) -> None:
        self._folder, self._overwrite, self._by_log = folder, overwrite, by_log
        if "encoded" not in columns:
            raise ConfigError("to write entries, the DataFrame needs a binary column 'encoded'")
        partial = f"partial-{secrets.token_hex(8)}"
        parent = Location(folder.uri.rstrip("/").rpartition("/")[0] or "/", folder.settings)
        # Object stores have no hidden folders beside a bucket, and moving within the folder is as good there.
        self._staging = parent / f".{folder.name}.{partial}" if folder.is_local else folder / f"_{partial}"
        with said(folder.uri, "be written"):
            system, path = folder.filesystem()
            if system.get_file_info(path).type.name == "File":
                raise ConfigError(f"{folder}: is there already, and is not a folder")
            if folder.is_local and system.get_file_info(parent.uri).type.name != "Directory":
                raise ConfigError(f"{folder}: there is no folder {parent}")
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

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
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
            before = [one.location for one in self._folder.listed()] if self._overwrite else []
            for name in written:
                system.move(f"{staging}/{name}", f"{folder}/{final[name]}")
            kept = {f"{folder}/{name}" for name in final.values()}
            for old in before:
                if old.filesystem()[1] not in kept:
                    system.delete_file(old.filesystem()[1])
            system.delete_dir(staging)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove the files of all tasks; called on the driver when the job has failed."""
        with suppress(OSError):
            system, staging = self._staging.filesystem()
            system.delete_dir(staging)


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
