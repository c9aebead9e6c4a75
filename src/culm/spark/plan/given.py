"""Tables that users bring: who holds which ranges of a log, or wants them, and the terms of the peers.

Wrong columns are an error before anything else is done, because they are the user's mistake. A single row that cannot
be read is not: it becomes a reject, because tables of millions of rows often have some.

A row has a *range set*: the bytes of ``culm.ranges.RangeSet.encode()``, or text, one range or several with ``;``
between them. Ranges are read one by one and never merged into a ``RangeSet``. A set that grows too large merges ranges
that do not touch, which denotes more than before; a peer would then be taken to hold what it lacks.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

from pyspark.sql import DataFrame, SparkSession, functions

from culm.errors import ConfigError, EncodingError
from culm.ranges import Range, decode, read_range
from culm.ranges.sets import decode_each
from culm.spark.plan.balance import PeerTerms
from culm.spark.runtime.onspark import fitted
from culm.spark.runtime.output import place_of
from culm.wire.places import parse_author, parse_number

A = TypeVar("A")
B = TypeVar("B")
SIZES, HAVE, WANT, REQUESTS = "sizes", "have", "want", "requests"  # the tables

# Ranges in one row. It bounds what one row can cost a worker; a peer that holds more of a log has several rows.
MAX_RANGES = 65_536

# Bytes of the forbidden numbers of one range. Far more than a peer may send in a message, because a row comes from the
# user's own table and not from a stranger; a bound all the same, so that a damaged row cannot fill the memory.
MAX_FORBIDDEN_BYTES = 1 << 20

_TEXT, _BYTES = "string", "binary|string"
_WHOLE = r"string|(tiny|small|big)?int|decimal\(\d+,0\)"
_NUMBER = rf"{_WHOLE}|decimal.*"  # means of sizes may have fractions
_LOG = {"author": _BYTES, "log_id": _WHOLE}
_COLUMNS: dict[str, dict[str, str]] = {
    **{name: {"peer": _TEXT, **_LOG, "ranges": _BYTES} for name in (HAVE, WANT)},
    SIZES: {**_LOG, "metadata_bytes": _NUMBER, "payload_bytes": _NUMBER},
    REQUESTS: {"requester": _TEXT, **_LOG, "ranges|range": _BYTES},
}
"""The columns of each table, with the types that they may have, as patterns. ``ranges|range``: either will do."""

_FORMATS = {".csv": "csv", ".json": "json", ".jsonl": "json", ".parquet": "parquet"}
"""The formats of tables by the end of a file's name."""


class Given(NamedTuple):
    """A row as it was given. Ranges have three forms, and only one of them is not null.

    ``range`` is the encoding of one range, ``ranges`` that of a set; the bytes themselves do not tell which. Numbers
    come as text, because no type of Spark holds all of them. So do authors, in hex if they were bytes.
    """

    given: str
    peer: str | None
    author: str | None
    log_id: str | None
    range: bytes | None
    ranges: bytes | None
    ranges_text: str | None
    metadata_bytes: str | None
    payload_bytes: str | None

    def log(self) -> tuple[bytes, int]:
        """The author and the log id; ``ValueError`` or ``ConfigError`` if there is none."""
        return parse_author(needed(self.author, "an author")), parse_number(needed(self.log_id, "a log id"), "log id")

    def read_ranges(self) -> list[Range]:
        """The ranges; ``ValueError``, ``EncodingError`` or ``ConfigError`` if there are none that can be read."""
        if self.range is not None:
            return [decode(self.range, max_forbidden_bytes=MAX_FORBIDDEN_BYTES)]
        return read_ranges(needed(self.ranges_text, "ranges") if self.ranges is None else self.ranges)

    def as_text(self) -> tuple[str | None, ...]:
        """The table, peer, author, log id and ranges, for a reject."""
        value = self.range if self.ranges is None else self.ranges
        return self.given, self.peer, self.author, self.log_id, self.ranges_text if value is None else value.hex()


def checked(rows: Iterable[Given], read: Callable[[Given], Iterable[A]], refused: Callable[..., B]) -> Iterator[A | B]:
    """What ``read`` makes of rows. Never raises: a row that cannot be read becomes a reject with the reason.

    ``refused`` makes a reject of ``Given.as_text`` and the reason.
    """
    for row in rows:
        try:
            yield from read(row)
        except (ConfigError, EncodingError, ValueError) as error:
            yield refused(*row.as_text(), str(error))


def needed(value: A | None, name: str) -> A:
    """A value that a row must have; ``ValueError`` if it is null."""
    if value is None:
        raise ValueError(f"a row without {name}")
    return value


def read_ranges(value: bytes | str) -> list[Range]:
    """The ranges of a row; ``EncodingError`` or ``ConfigError`` if it has none that can be read."""
    if isinstance(value, str):
        return [read_range(part) for part in value.split(";")]
    return decode_each(value, MAX_RANGES, max_forbidden_bytes=MAX_FORBIDDEN_BYTES)


def read_rows(spark: SparkSession, path: Path) -> DataFrame:
    """A table from Parquet (a folder, or ``.parquet``), ``.csv``, ``.json`` or ``.jsonl``.

    Columns of CSV and JSON are strings, so that no guess of Spark's makes a float of a large number. ``ConfigError``
    for other names.
    """
    form = _FORMATS.get(path.suffix.lower(), "parquet" if path.is_dir() else None)
    if form is None:
        raise ConfigError(f"{path}: not a table; expected a folder of Parquet files, .parquet, .csv, .json or .jsonl")
    return spark.read.format(form).options(header=True, primitivesAsString=True).load(place_of(path))


def given(table: DataFrame, name: str) -> DataFrame:
    """The rows of the table ``name`` (``have``, ``want``, ``sizes`` or ``requests``) as ``Given``.

    ``ConfigError`` if a column is missing or of a wrong type.
    """
    kinds, forms = dict(table.dtypes), dict[str, str | None].fromkeys(Given._fields)
    for either, accepted in _COLUMNS[name].items():
        column = next((one for one in either.split("|") if one in kinds), None)
        if column is None:
            called, there = " or ".join(map(repr, either.split("|"))), ", ".join(map(repr, kinds))
            raise ConfigError(f"the table {name!r} needs a column {called}; this one has {there}")
        kind = kinds[column]
        if not re.fullmatch(accepted, kind):
            raise ConfigError(f"the column {column!r} of the table {name!r} cannot be of the type {kind.upper()}")
        if (column, kind) == ("author", "binary"):
            table = table.withColumn("author", functions.lower(functions.hex("author")))
        is_text = column != "author" and accepted == _BYTES and kind == "string"
        forms[f"{either.split('|')[0]}_text" if is_text else "peer" if column == "requester" else column] = column
    return fitted(table, Given, **forms).withColumn("given", functions.lit(name))


def read_terms(peers: DataFrame) -> dict[str, PeerTerms]:
    """Capacity and cost of each peer in the table; ``ConfigError`` for a missing column and a row that makes no sense.

    All rows come to the driver, which needs them to share out: one for each peer, not for each log.
    """
    if missing := {"peer", "capacity"} - set(peers.columns):
        raise ConfigError(f"the table 'peers' has no column {min(missing)!r}; it needs peer and capacity")
    terms: dict[str, PeerTerms] = {}
    for row in peers.collect():
        peer, cost = row.peer, row.cost if "cost" in peers.columns else 0
        if peer in terms:
            raise ConfigError(f"the table 'peers' has {peer!r} twice; give each peer one row")
        with suppress(ValueError):
            terms[peer] = PeerTerms(int(str(row.capacity)), float(str(cost)))
        if not isinstance(peer, str) or peer not in terms or not all(0 <= number < 1e30 for number in terms[peer]):
            told = f"{peer!r} has the capacity {row.capacity!r} and the cost {cost!r}; expected a name"
            raise ConfigError(f"the table 'peers': {told}, a whole number of bytes, and a number, 0 or more")
    return terms
