"""The options of ``format("culm")``, which say what of the inputs is wanted, its columns, and the rows that they give.

=================  ===================================================================================================
``author``         authors, comma separated, in base62 or hex; default: all. ``authors`` means the same
``log``            logs, comma separated, as ``AUTHOR/LOG``; default: all. ``logs`` means the same
``range``          a Bamboo range of numbers, such as ``5..10 sparse``; default: all. Its limits are for payloads
``columns``        the columns, comma separated; default: all
``fromSeqnum``     the first sequence number; default 1
``toSeqnum``       the last one, included; default 2^64 - 1
``payloads``       ``true``: with the payloads that are held; default ``false``
``maxPayload``     the most bytes of a payload that is put into a row; default 1048576. Larger ones are left out
``rejects``        ``true`` (default): also a row for everything that could not be read; ``only``; ``false``
``minPartitions``  into how many tasks to cut large inputs, at least; default: into tasks of 32 MiB
``batch``          streaming: the most entries of a batch, of each store or log; default 100000
``wait``           following a peer: seconds of silence after which it has nothing to add; default 1, at most 600
``home``           following a ``culm://`` peer: a folder of the stream's own, with its identity and what it has got
``identity``       the name of an identity in that home; default: ``default``, or the only one
``clump``          the clump, as text; default: that of the home's ``culm.toml``, or none
``bundles``        writing: ``partition`` (default), a bundle for each partition, or ``log``, one for each log
=================  ===================================================================================================

``author`` and ``log`` together take what either names. A reject belongs to no author and no log, so rejects come
whatever else is chosen. Options that begin with ``fs.`` are Hadoop's settings for inputs on other machines, such as
``fs.s3a.endpoint``.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyarrow import compute
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from culm.bamboo import MAX_U64
from culm.bamboo.entry import SIGNATURE_BYTES
from culm.errors import ConfigError
from culm.ranges import read_range
from culm.spark.batches.arrays import decimals, fields_of, fixed_binary, hashes
from culm.spark.batches.fields import DIGEST_BYTES, Fields, Flags, Offsets, cut, why_not
from culm.spark.reading.entries import split_batches
from culm.spark.reading.found import EVERYTHING, EntryRow, Wanted, within
from culm.spark.runtime.columns import fitted
from culm.wire.places import parse_author, parse_log, parse_number

try:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
except ImportError:  # PySpark 4.1

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """The mark of streams that can end with what is held when they start, where PySpark has none."""


__all__ = ["ENTRIES", "Options", "Pieces", "SupportsTriggerAvailableNow", "decoded", "entry_batches"]


def _some(array: pa.Array, rows: Flags) -> pa.Array:
    """The array with null in all rows but these."""
    return compute.if_else(pa.array(rows), array, None)


def _hash(fields: Fields, at: Offsets) -> pa.Array:
    there = fields.good & (at >= 0)
    return _some(hashes(cut(fields.data, np.where(there, at, 0), DIGEST_BYTES)), there)


def _signature(fields: Fields) -> pa.Array:
    return fixed_binary(cut(fields.data, np.maximum(fields.end - SIGNATURE_BYTES, 0), SIGNATURE_BYTES))


UNSIGNED = "DECIMAL(20,0)"
# The type of each column in SQL, a comment, and of a field of entries how it is made; null in rows that are no entries.
_COLUMNS: dict[str, tuple[str, str, Callable[[Fields], pa.Array] | None]] = {
    "source": ("STRING", "the path or URI where it was found", None),
    "offset": ("BIGINT", "where in it: a byte of a file, a row of a store or table", None),
    "author": ("BINARY", "public key of the author, 32 bytes", lambda of: fixed_binary(of.authors())),
    "log_id": (UNSIGNED, "which log of the author", lambda of: decimals(of.log_id)),
    "seqnum": (UNSIGNED, "number in the log; the first is 1", lambda of: decimals(of.seq)),
    "tag": ("TINYINT", "1 if the entry ends its log, else 0", lambda of: pa.array(of.is_end.astype(np.int8))),
    "lipmaalink": (
        "BINARY",
        "hash of the entry that the lipmaa link leads to; null where that is the backlink",
        lambda of: _hash(of, of.lipmaalink),
    ),
    "backlink": ("BINARY", "hash of the entry before; null for entry 1", lambda of: _hash(of, of.backlink)),
    "size": (UNSIGNED, "bytes of the payload, as the entry claims", lambda of: decimals(of.size)),
    "payload_hash": ("BINARY", "hash of the payload: YAMF, 66 bytes", lambda of: _hash(of, of.payload_hash)),
    "sig": ("BINARY", "signature, 64 bytes, not checked", _signature),
    "encoded": ("BINARY", "all bytes of the entry; of a reject what was taken for one", None),
    "payload_state": ("STRING", "absent, forgotten, mismatch, partial, held or size_mismatch", None),
    "payload": ("BINARY", "the payload, with the option payloads and if it is held and not too large", None),
    "payload_frame": ("BINARY", "a payload that stands apart from any entry; all else is null then", None),
    "reason": ("STRING", "of a reject: why it could not be read", None),
}

ENTRIES = {name: kind for name, (kind, *_) in _COLUMNS.items()}
"""The fields of an entry (docs/specs/bamboo.md, "Entries"), null where it has none. Of a reject only place and reason.

``payload_state``: what is known of the payload at that place (``batches.payload.STATES``). Rows with
a ``payload_frame`` come only if that column is wanted.
"""


def schema_of(names: Iterable[str]) -> str:
    """These columns as a schema in SQL, with comments."""
    return ", ".join("{} {} COMMENT '{}'".format(name, *_COLUMNS[name][:2]) for name in names)


_SAME = {"authors": "author", "logs": "log"}  # options that may be named in two ways
_NAMES = (
    *("author", "log", "range", "columns", "fromseqnum", "toseqnum", "payloads", "maxpayload", "rejects"),
    *("minpartitions", "batch", "wait", "home", "identity", "clump", "bundles"),
)
_OF_SPARK = ("path", "paths", "checkpointlocation", "mode")  # options that Spark itself adds
_LONGEST_WAIT = 600.0  # Seconds. A batch waits at least so long for a silent peer, so a slip of the finger is refused.


@dataclass(frozen=True, slots=True)
class Options:
    """The options after they were checked."""

    wanted: Wanted = EVERYTHING
    columns: tuple[str, ...] = tuple(ENTRIES)
    rejects: str = "true"
    batch: int = 100_000
    wait: float = 1.0
    """Seconds of silence after which a peer that is followed has nothing to add."""
    by_log: bool = False
    """Whether each log is written as a bundle of its own."""
    home: str | None = None
    """The home of a stream that follows a ``culm://`` peer, with the names of an identity and a clump.

    ``identity`` None: ``default``, or the only one. ``clump`` None: the one of the home's ``culm.toml``, or none.
    """
    identity: str | None = None
    clump: str | None = None
    tasks: int = 1
    """Into how many tasks to cut large inputs, if that does not make them too short."""

    @classmethod
    def parse(cls, given: Mapping[str, str], schema: StructType | None = None) -> "Options":
        """Read the options as Spark gives them; ``ConfigError`` for an unknown one or a wrong value.

        ``schema``: the columns that Spark wants; None: as the option ``columns`` says. ``ConfigError`` for one that the
        source has not got, or has with another type.
        """
        options = {_SAME.get(name.lower(), name.lower()): value for name, value in given.items()}
        for name in options:
            if name not in (*_NAMES, *_OF_SPARK) and not name.startswith("fs."):
                raise ConfigError(f"format culm has no option {name!r}; it has {', '.join(_NAMES)}")
        kinds = {field.name: field.dataType.simpleString().upper() for field in schema or ()}
        kinds = kinds or {name: ENTRIES.get(name, "") for name in _listed(options.get("columns", ",".join(ENTRIES)))}
        for name, kind in kinds.items():
            if name not in ENTRIES:
                raise ConfigError(f"format culm has no column {name!r}; it has {', '.join(ENTRIES)}")
            if kind != ENTRIES[name]:
                raise ConfigError(f"the column {name!r} of format culm is {ENTRIES[name]}, not {kind}")
        authors, logs = (_listed(options.get(name, "")) for name in ("author", "log"))
        low = parse_number(options.get("fromseqnum", "1"), "sequence number", 1)
        high = parse_number(options.get("toseqnum", str(MAX_U64)), "sequence number", 1)
        limit = parse_number(options.get("maxpayload", "1048576"), "size")
        wanted = Wanted(
            frozenset([*map(parse_author, authors), *map(parse_log, logs)]) if {"author", "log"} & {*options} else None,
            within(read_range(options.get("range", "1..")), low, high),
            limit if _one_of(options, "payloads", "false", "true") == "true" and "payload" in kinds else -1,
            states="payload_state" in kinds,
            frames="payload_frame" in kinds,
        )
        return cls(
            wanted,
            tuple(kinds),
            _one_of(options, "rejects", "true", "only", "false"),
            parse_number(options.get("batch", "100000"), "number of entries", 1),
            _seconds(options.get("wait", "1")),
            _one_of(options, "bundles", "partition", "log") == "log",
            **{name: options.get(name) for name in ("home", "identity", "clump")},
            tasks=parse_number(options.get("minpartitions", "1"), "number of partitions", 1),
        )


def paths_of(given: Mapping[str, str]) -> list[str]:
    """The paths given to ``load`` or ``save``; ``ConfigError`` if there are none."""
    if "paths" in given:
        return [str(path) for path in json.loads(given["paths"])]
    if "path" in given:
        return [given["path"]]
    raise ConfigError("format culm needs a path: stores, export files, tables of entries")


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _seconds(text: str) -> float:
    with suppress(ValueError):
        if 0.0 < (seconds := float(text)) <= _LONGEST_WAIT:
            return seconds
    raise ConfigError(f"the option wait: {text!r} is not a time; expected seconds above 0, up to {_LONGEST_WAIT:g}")


def _one_of(options: Mapping[str, str], name: str, *values: str) -> str:
    """The value of an option, which must be one of these; the first is the default."""
    value = options.get(name, values[0]).lower()
    if value not in values:
        raise ConfigError(f"the option {name} must be {' or '.join(sorted(values, reverse=True))}, not {value!r}")
    return value


# -- rows ----------------------------------------------------------------------------------------------------------


class Pieces:
    """A reader of pieces: the ``read`` that Spark calls in a task, for the readers of stores, files and folders."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task."""
        return entry_batches(split_batches(partition.value, self._options.wanted), self._options)


def entry_batches(found: Iterable[pa.RecordBatch], options: Options) -> Iterator[pa.RecordBatch]:
    """Batches with the columns and the rows that the options want, of batches of ``EntryRow``; no batch is empty."""
    return (batch for batch in (_batch(one, options) for one in found) if batch.num_rows)


def _batch(found: pa.RecordBatch, options: Options) -> pa.RecordBatch:
    fields = fields_of(found.column("encoded"))
    bad = _has(found, "encoded") & ~fields.good & ~_has(found, "reason")
    if bad.any():  # Bytes that are not an entry become a reject; ``encoded`` keeps them.
        why = pa.array(map(why_not, found.column("encoded").filter(pa.array(bad)).to_pylist()), pa.string())
        reasons = compute.replace_with_mask(found.column("reason"), pa.array(bad), why)
        states = _some(found.column("payload_state"), ~bad)
        found = fitted(found, EntryRow, {"payload_state": states, "reason": reasons})
    chosen = _has(found, "reason") & (options.rejects != "false")
    if options.rejects != "only":
        chosen |= options.wanted.chosen(fields) | (_has(found, "payload_frame") & options.wanted.frames)
    rows = chosen.nonzero()[0]
    fields, found = fields.take(rows), found.take(pa.array(rows))
    made = {name: _some(make(fields), fields.good) for name, make in _FIELDS.items() if name in options.columns}
    columns = [made[name] if name in made else found.column(name) for name in options.columns]
    return pa.record_batch(columns, names=list(options.columns))


_FIELDS = {name: make for name, (_, _, make) in _COLUMNS.items() if make is not None}


def decoded(encoded: pa.Array) -> pa.Array:
    """Entries as structs of their fields; null where the bytes are not an entry."""
    fields = fields_of(encoded)
    columns = [make(fields) for make in _FIELDS.values()]
    return pa.StructArray.from_arrays(columns, names=list(_FIELDS), mask=pa.array(~fields.good))


def _has(found: pa.RecordBatch, name: str) -> Flags:
    return np.asarray(found.column(name).is_valid())
