"""The class that Spark asks for readers and writers of ``format("culm")``, and the reader of a whole input."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from pyspark.errors import PySparkNotImplementedError
from pyspark.sql import datasource
from pyspark.sql.types import StructType

from culm.errors import ConfigError
from culm.spark.reading.inputs import Split, plan
from culm.spark.source.growing import FolderStream, StoreStream
from culm.spark.source.options import Options, paths_of, schema_of, settings_of
from culm.spark.source.peers import LiveStream, PeerStream
from culm.spark.source.rows import Pieces
from culm.spark.source.writer import BundlesWriter
from culm.spark.storage import located

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
        return EntriesReader(plan(paths_of(self.options), settings_of(self.options), options.wanted), options)

    def writer(self, schema: StructType, overwrite: bool) -> datasource.DataSourceArrowWriter:
        """A writer of bundles into a folder."""
        (path,) = paths_of(self.options)
        by_log = Options.parse(self.options).by_log
        (folder,) = located([path], settings_of(self.options))
        return BundlesWriter(folder, schema.names, overwrite=overwrite, by_log=by_log)

    def streamReader(self, schema: StructType) -> datasource.DataSourceStreamReader:
        """A stream of what stores, a folder or a ``culm://`` peer get; of others Spark asks ``simpleStreamReader``."""
        paths = paths_of(self.options)
        if all(path.startswith("intervals://") for path in paths):
            feature = {"feature": "streamReader"}
            raise PySparkNotImplementedError(errorClass="NOT_IMPLEMENTED", messageParameters=feature)
        options = Options.parse(self.options, schema)
        if any(path.startswith("culm://") for path in paths):
            return LiveStream(_only(paths), options)
        places = located(paths, settings_of(self.options))
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
