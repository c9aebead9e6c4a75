"""Writing entries as bundles: a file for each task.

Tasks write into a hidden folder beside the final one. When all have succeeded, the driver moves the files that they
name; so a job that fails leaves nothing in the final folder, nor does a task that Spark ran twice.
"""

from __future__ import annotations

import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from culm.bamboo import Entry
from culm.errors import ConfigError, CulmError, EncodingError
from culm.store.files import BundleWriter

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa


@dataclass
class Written(WriterCommitMessage):
    """The file that a task wrote, "" if it had nothing to write."""

    name: str


class BundlesWriter(DataSourceArrowWriter):
    """Writes rows with a column ``encoded``, and perhaps ``payload``, into a folder of bundles.

    The folder must be under the same path on all machines. Rows without an entry, such as rejects, cannot be written:
    the job fails and says so. ``ConfigError`` for a missing column and a folder that cannot be made.
    """

    def __init__(self, path: str, columns: Sequence[str], *, overwrite: bool) -> None:
        self._folder = Path(path.removeprefix("file://")).absolute()
        self._columns = [name for name in ("encoded", "payload") if name in columns]
        self._overwrite = overwrite
        if "encoded" not in self._columns:
            raise ConfigError("to write entries, the DataFrame needs a binary column 'encoded'")
        if self._folder.exists() and not self._folder.is_dir():
            raise ConfigError(f"{self._folder}: is there already, and is not a folder")
        if not self._folder.parent.is_dir():
            raise ConfigError(f"{self._folder}: there is no folder {self._folder.parent}")
        self._token = secrets.token_hex(4)
        self._staging = self._folder.with_name(f".{self._folder.name}.partial-{self._token}")

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write the rows of one task; called in a worker."""
        self._staging.mkdir(exist_ok=True)
        name, count = f"part-{secrets.token_hex(8)}.bundle", 0
        with (self._staging / name).open("wb") as stream:
            bundle = BundleWriter(stream)
            for batch in iterator:
                columns = [batch.column(column).to_pylist() for column in self._columns]
                for encoded, *payload in zip(*columns, strict=True):
                    _write(bundle, encoded, payload[0] if payload else None)
                    count += 1
            bundle.close()
        if not count:
            (self._staging / name).unlink()
        return Written(name if count else "")

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Move the files of the tasks that succeeded into the folder; called on the driver when all are done."""
        names = [message.name for message in messages if isinstance(message, Written) and message.name]
        if self._overwrite and self._folder.exists():
            shutil.rmtree(self._folder)
        self._folder.mkdir(exist_ok=True)
        for name in names:
            (self._staging / name).rename(self._folder / name)
        shutil.rmtree(self._staging, ignore_errors=True)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002 - nothing is kept
        """Remove the files of all tasks; called on the driver when the job has failed."""
        shutil.rmtree(self._staging, ignore_errors=True)


def _write(bundle: BundleWriter, encoded: bytes | None, payload: bytes | None) -> None:
    if encoded is None:
        raise CulmError("a row without an entry cannot be written: leave out the rejects (WHERE reason IS NULL)")
    try:
        entry = Entry.decode(encoded)
    except EncodingError as error:
        raise CulmError(f"a row cannot be written, because it is not an entry: {error}") from error
    bundle.entry(entry)
    if payload is not None:
        bundle.payload(entry.place, len(payload), [payload])
