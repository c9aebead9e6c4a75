"""Writing entries as bundles: a file for each task, or for each log.

Tasks write into a hidden folder beside the final one. When all have succeeded, the driver moves the files that they
name; so a job that fails leaves nothing in the final folder, nor does a task that Spark ran twice.
"""

from __future__ import annotations

import secrets
import shutil
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from culm.bamboo import Entry
from culm.errors import ConfigError, CulmError, EncodingError
from culm.store.files import BundleWriter
from culm.wire.places import log_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from culm.types import Log

_BUFFER = 1024 * 1024  # bytes written at once, so that small entries do not cost a system call each
_TOGETHER = "write df.repartition('author', 'log_id').sortWithinPartitions('author', 'log_id', 'seqnum')"


@dataclass
class Written(WriterCommitMessage):
    """The files that a task wrote."""

    names: list[str]


class BundlesWriter(DataSourceArrowWriter):
    """Writes rows with a column ``encoded``, and perhaps ``payload``, into a folder of bundles.

    The folder must be under the same path on all machines. Rows without an entry, such as rejects, cannot be written:
    the job fails and says so. With ``by_log`` the rows of each log must come together, in one task.
    ``ConfigError`` for a missing column and a folder that cannot be made.
    """

    def __init__(self, path: str, columns: Sequence[str], *, overwrite: bool, by_log: bool = False) -> None:
        self._folder = Path(path.removeprefix("file://")).absolute()
        self._columns = [name for name in ("encoded", "payload") if name in columns]
        self._overwrite = overwrite
        self._by_log = by_log
        if "encoded" not in self._columns:
            raise ConfigError("to write entries, the DataFrame needs a binary column 'encoded'")
        if self._folder.exists() and not self._folder.is_dir():
            raise ConfigError(f"{self._folder}: is there already, and is not a folder")
        if not self._folder.parent.is_dir():
            raise ConfigError(f"{self._folder}: there is no folder {self._folder.parent}")
        self._token = secrets.token_hex(4)
        self._staging = self._folder.with_name(f".{self._folder.name}.partial-{self._token}")
        self._staging.mkdir()  # here, so that a task that is late after a failure does not make it again

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write the rows of one task; called in a worker."""
        token = secrets.token_hex(8)
        names: list[str] = []
        for log, rows in groupby(_rows(iterator, self._columns), key=self._bundle_of):
            name = f"part-{token}.bundle" if log is None else f"{log_text(log).replace('/', '-')}.{token}.bundle"
            if name in names:
                raise CulmError(f"entries of the log {log_text(log or (b'', 0))} are not together: {_TOGETHER}")
            names.append(name)
            with (self._staging / name).open("wb", _BUFFER) as stream:
                bundle = BundleWriter(stream)
                for entry, payload in rows:
                    bundle.entry(entry)
                    if payload is not None:
                        bundle.payload(entry.place, len(payload), [payload])
                bundle.close()
        return Written(names)

    def _bundle_of(self, row: tuple[Entry, bytes | None]) -> Log | None:
        return row[0].log if self._by_log else None

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Move the files of the tasks that succeeded into the folder; called on the driver when all are done.

        ``CulmError`` if two tasks had entries of one log and each log was to be one bundle.
        """
        written = [name for message in messages if isinstance(message, Written) for name in message.names]
        final = {name: name.split(".")[0] + ".bundle" if self._by_log else name for name in written}
        if len(set(final.values())) < len(final):
            self.abort(messages)
            raise CulmError(f"entries of one log are in several partitions: {_TOGETHER}")
        if self._overwrite and self._folder.exists():
            shutil.rmtree(self._folder)
        self._folder.mkdir(exist_ok=True)
        for name in written:
            (self._staging / name).rename(self._folder / final[name])
        shutil.rmtree(self._staging, ignore_errors=True)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002 - nothing is kept
        """Remove the files of all tasks; called on the driver when the job has failed."""
        shutil.rmtree(self._staging, ignore_errors=True)


def _rows(batches: Iterator[pa.RecordBatch], columns: Sequence[str]) -> Iterator[tuple[Entry, bytes | None]]:
    """The entries of the rows, each with its payload if there is one; ``CulmError`` for a row that is no entry."""
    for batch in batches:
        values = [batch.column(column).to_pylist() for column in columns]
        for encoded, *payload in zip(*values, strict=True):
            if encoded is None:
                raise CulmError(
                    "a row without an entry cannot be written: leave out the rejects (WHERE reason IS NULL)"
                )
            try:
                entry = Entry.decode(encoded)
            except EncodingError as error:
                raise CulmError(f"a row cannot be written, because it is not an entry: {error}") from error
            yield entry, payload[0] if payload else None
