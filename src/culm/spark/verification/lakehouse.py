"""Verdicts as a table of a catalog, in Parquet, Delta or Iceberg: written once, and merged into day by day.

A folder of Parquet can be replaced, but its readers then see no table for a moment, and yesterday's verdicts are gone.
Delta and Iceberg commit each change as one step, and keep the versions before it: a reader sees a whole version, and
can ask for that of yesterday. So the verdicts of a run with a state, which are those that are new or changed, are
merged into such a table::

    lakehouse.write(spark.verify(entries), "lake.trusted.verdicts", "iceberg")
    lakehouse.merge(changes, "lake.trusted.verdicts")

A merge that is repeated changes nothing, because an entry has one row. So a run that fails after it can be run again.

The session brings the format: its jars (``spark.jars``), its extensions and its catalogs are the user's settings.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from culm.errors import ConfigError
from culm.spark.verification.state import State

FORMATS = ("parquet", "delta", "iceberg")

KEY = ("author", "log_id", "seqnum", "entry_hash")
"""The columns by which two rows are of the same entry."""

_MARK = "culm.state"  # the table's property with the mark of the run whose verdicts it has (``State.mark``)

# A part of a table's name: any text in backquotes (a backquote in it is doubled), or what needs none.
_PART = r"`(?:[^`]|``)+`|[^`.\s]+"

# What to do about the errors of Spark that are due to settings or names, by the words that name them in Spark's text.
# Parquet has no MERGE, because its folders have no commits. Merging by hand would write the table anew. A run that is
# killed meanwhile would leave a table with some of its rows, which no reader could tell from a whole one.
_HINTS = {
    "[UNSUPPORTED_FEATURE.TABLE_OPERATION]": "its format has no MERGE; use delta or iceberg, or overwrite it",
    "[DATA_SOURCE_NOT_FOUND]": "the session has no jars of that format, or not all of its settings: spark.jars, "
    "spark.sql.extensions, spark.sql.catalog",
    "Couldn't find a catalog": "the session has no such catalog; set spark.sql.catalog.NAME",
    "[REQUIRES_SINGLE_PART_NAMESPACE]": "the session has no such catalog; set spark.sql.catalog.NAME",
    "[TABLE_OR_VIEW_ALREADY_EXISTS]": "is there already; overwrite it, or merge into it",
    "[SCHEMA_NOT_FOUND]": "its database is not there; make it with CREATE SCHEMA",
}


_MISSING = ("TABLE_OR_VIEW_NOT_FOUND", "PATH_NOT_FOUND", "DELTA_MISSING_DELTA_TABLE", "DELTA_TABLE_NOT_FOUND")


def write(verdicts: DataFrame, table: str, table_format: str = "delta", mode: str = "error") -> None:
    """Write verdicts as a table ``CATALOG.DB.NAME`` (or ``DB.NAME``, or Delta's ``delta.`/FOLDER```).

    ``mode`` is what happens if the table is there: ``error``, ``overwrite`` (its rows are replaced; Delta and Iceberg
    keep the version before) or ``append``. ``ConfigError`` if an argument is none of these, if a column of ``KEY`` is
    missing, or if the session cannot write such a table. Runs the verification, if ``verdicts`` is a plan so far.
    """
    _one_of(FORMATS, table_format, "table_format")
    _one_of(("error", "overwrite", "append"), mode, "mode")
    _check(verdicts)
    with _explained(table):
        verdicts.write.format(table_format).mode(mode).saveAsTable(quoted(table))


def merge(changes: DataFrame, table: str, table_format: str = "delta") -> None:
    """Bring a table up to date with verdicts that are new or changed, in one commit; make the table if it is missing.

    ``changes`` has at most one row for each entry. Rows of other entries stay as they are. ``table_format`` is only for
    a table that is made. ``ConfigError`` if the table's format has no MERGE, as Parquet; else as for ``write``.
    """
    _check(changes)
    if not exists(changes.sparkSession, table):
        write(changes, table, table_format)
        return
    same = " AND ".join(f"known.{name} = new.{name}" for name in KEY)
    into = f"MERGE INTO {quoted(table)} AS known USING {{changes}} AS new ON {same}"
    rules = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    with _explained(table):
        changes.sparkSession.sql(f"{into} {rules}", changes=changes).collect()


class Target:
    """A table that verdicts go to. ``mode`` is ``merge``, or what ``write`` does if the table is there.

    ``ConfigError`` for what no session could write.
    """

    def __init__(self, name: str, table_format: str, mode: str = "merge") -> None:
        self.name, self.table_format, self._mode = name, table_format, mode
        _one_of(FORMATS, table_format, "the format of a table")
        quoted(name)
        if mode == "merge" and table_format == "parquet":
            raise ConfigError(
                f"{name}: a run with a state merges, and Parquet has no MERGE; use delta or iceberg, or leave the table"
                " out and write it anew from the state (docs/spark-tables.md)"
            )

    def check(self, spark: SparkSession) -> None:
        """Raise ``ConfigError`` if rows of the table would have to be replaced, before a run works for an hour."""
        if self._mode == "error" and exists(spark, self.name):
            raise ConfigError(f"{self.name}: is there already; --overwrite replaces its rows, --state merges into it")

    def write(self, verdicts: DataFrame, known: State | None) -> None:
        """Write the verdicts of a run, or merge them if the run has a state.

        ``known`` is the state before the run is committed. A table that has not all of its verdicts, because a run
        went by without it, first gets all of them.
        """
        if known is None:
            write(verdicts, self.name, self.table_format, self._mode)
            return
        spark = verdicts.sparkSession
        if known.mark and self.mark(spark) != known.mark:
            merge(known.verdicts(spark), self.name, self.table_format)
        self.merge(verdicts, known.next_mark)

    def merge(self, verdicts: DataFrame, mark: str) -> None:
        """Merge the verdicts of a run, then note at the table which run that was (``State.mark``)."""
        merge(verdicts, self.name, self.table_format)
        verdicts.sparkSession.sql(f"ALTER TABLE {quoted(self.name)} SET TBLPROPERTIES ('{_MARK}' = '{mark}')")

    def mark(self, spark: SparkSession) -> str:
        """The mark of the last run whose verdicts the table has; "" if it has none, or is not there."""
        if not exists(spark, self.name):
            return ""
        found = spark.sql(f"SHOW TBLPROPERTIES {quoted(self.name)}").collect()
        return next((str(row.value) for row in found if row.key == _MARK), "")


def exists(spark: SparkSession, table: str) -> bool:
    """Whether there is a table of that name. ``ConfigError`` if the name is none, or its catalog is not there."""
    name = quoted(table)
    with _explained(table):
        try:
            # Not catalog.tableExists, because that says yes to any folder named as a Delta table.
            spark.table(name).schema  # noqa: B018 - a plan without its schema is not looked up yet
            spark.sql(f"REFRESH TABLE {name}")  # A catalog remembers tables for a while; others may have written since.
        except AnalysisException as error:
            if error.getCondition() in _MISSING:
                return False
            raise
    return True


def quoted(table: str) -> str:
    """The name of a table as it stands in SQL, each part in backquotes; ``ConfigError`` if it is not a name."""
    if not re.fullmatch(rf"(?:{_PART})(?:\.(?:{_PART}))*", table):
        raise ConfigError(f"{table!r} is not the name of a table; expected CATALOG.DB.NAME")
    return ".".join(part if part.startswith("`") else f"`{part}`" for part in re.findall(_PART, table))


def _one_of(known: tuple[str, ...], given: str, name: str) -> None:
    if given not in known:
        raise ConfigError(f"{name} must be one of {', '.join(known)}, not {given!r}")


def _check(verdicts: DataFrame) -> None:
    if lacking := [column for column in KEY if column not in verdicts.columns]:
        raise ConfigError(f"verdicts need the columns {', '.join(KEY)}; there is no {', '.join(lacking)}")


@contextmanager
def _explained(table: str) -> Iterator[None]:
    """Turn Spark's errors about settings and names into a ``ConfigError`` that says what to do."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        if (hint := next((hint for words, hint in _HINTS.items() if words in str(error)), None)) is None:
            raise
        raise ConfigError(f"{table}: {hint}") from error
