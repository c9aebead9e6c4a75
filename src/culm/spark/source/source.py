"""The class that Spark asks for readers and writers of ``format("culm")``, and the reader of a whole input."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from culm.errors import ConfigError
from culm.spark.inputs import Part, plan
from culm.spark.reading import table_rows
from culm.spark.scan import scan
from culm.spark.source.entries import check_schema, schema_of
from culm.spark.source.options import Options, paths_of, settings_of
from culm.spark.source.peers import PeerStream
from culm.spark.source.rows import entry_batches
from culm.spark.source.stores import StoreStream
from culm.spark.source.writer import BundlesWriter
from culm.spark.storage import located

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamReader, SimpleDataSourceStreamReader
    from pyspark.sql.types import StructType

    from culm.spark.inputs import Piece, Split
    from culm.spark.scan import Found


class CulmSource(DataSource):
    """``format("culm")``. ``ConfigError`` or ``StoreError`` for wrong options and for inputs that nobody can read."""

    @classmethod
    def name(cls) -> str:
        """The name in ``format("culm")``."""
        return "culm"

    def schema(self) -> str:
        """All columns, or those of the option ``columns``: Spark never tells a source which it will use."""
        return schema_of(Options.parse(self.options).columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of stores, export files and tables of entries. A schema that the user gave chooses columns, too."""
        check_schema(schema)
        options = Options.parse(self.options, schema.names)
        return EntriesReader(plan(paths_of(self.options), settings_of(self.options), options.wanted), options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """A writer of bundles into a folder."""
        (path,) = paths_of(self.options)
        by_log = Options.parse(self.options).by_log
        (folder,) = located([path], settings_of(self.options))
        return BundlesWriter(folder, schema.names, overwrite=overwrite, by_log=by_log)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """A stream of what stores get. For a peer this raises, and Spark then asks for ``simpleStreamReader``."""
        from pyspark.errors import PySparkNotImplementedError

        paths = paths_of(self.options)
        if all("://" in path for path in paths):
            raise PySparkNotImplementedError(
                errorClass="NOT_IMPLEMENTED", messageParameters={"feature": "streamReader"}
            )
        check_schema(schema)
        return StoreStream(paths, Options.parse(self.options, schema.names))

    def simpleStreamReader(self, schema: StructType) -> SimpleDataSourceStreamReader:  # noqa: N802
        """A stream of what one peer gets; it is read by one task, since a peer has one connection."""
        paths = paths_of(self.options)
        if len(paths) != 1:
            raise ConfigError(f"{len(paths)} addresses: a stream follows one peer; make a stream for each")
        check_schema(schema)
        return PeerStream(paths[0], Options.parse(self.options, schema.names))


class EntriesReader(DataSourceReader):
    """Reads splits in parallel, each in a task of its own."""

    def __init__(self, splits: Sequence[Split], options: Options) -> None:
        self._splits = splits
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """A partition for each split, and one without anything if there are none: Spark would read one all the same."""
        return [InputPartition(split) for split in self._splits or [()]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a split."""
        found = chain.from_iterable(found_in(piece, self._options) for piece in partition.value)
        return entry_batches(found, self._options)


def found_in(piece: Piece, options: Options) -> Iterator[Found]:
    """The rows of a piece, with payloads if they are wanted."""
    return table_rows(piece) if piece.part is Part.TABLE else scan(piece, options.wanted)
