"""The columns of ``format("culm")``, with the comments that a catalog shows."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql.types import StructType

from culm.errors import ConfigError
from culm.spark.runtime.columns import UNSIGNED

_COMMENTS = {
    "source": ("STRING", "the path or URI where it was found"),
    "offset": ("BIGINT", "where in it: a byte of a file, a row of a store or table"),
    "author": ("BINARY", "public key of the author, 32 bytes"),
    "log_id": (UNSIGNED, "which log of the author"),
    "seqnum": (UNSIGNED, "number in the log; the first is 1"),
    "tag": ("TINYINT", "1 if the entry ends its log, else 0"),
    "lipmaalink": ("BINARY", "hash of the entry that the lipmaa link leads to; null where that is the backlink"),
    "backlink": ("BINARY", "hash of the entry before; null for entry 1"),
    "size": (UNSIGNED, "bytes of the payload, as the entry claims"),
    "payload_hash": ("BINARY", "hash of the payload: YAMF, 66 bytes"),
    "sig": ("BINARY", "signature, 64 bytes, not checked"),
    "encoded": ("BINARY", "all bytes of the entry; of a reject what was taken for one"),
    "payload_state": ("STRING", "absent, forgotten, mismatch, partial, held or size_mismatch"),
    "payload": ("BINARY", "the payload, with the option payloads and if it is held and not too large"),
    "payload_frame": ("BINARY", "a payload that stands apart from any entry; all else is null then"),
    "reason": ("STRING", "of a reject: why it could not be read"),
}

ENTRIES = {name: kind for name, (kind, _) in _COMMENTS.items()}
"""The fields of an entry (docs/specs/bamboo.md, "Entries"), null where it has none. Of a reject only place and reason.

``payload_state``: what is known of the payload at that place (``batches.payload.STATES``). Rows with
a ``payload_frame`` come only if that column is wanted.
"""


def schema_of(names: Iterable[str]) -> str:
    """These columns as a schema in SQL, with comments."""
    return ", ".join(f"{name} {_COMMENTS[name][0]} COMMENT '{_COMMENTS[name][1]}'" for name in names)


def check_schema(schema: StructType) -> None:
    """Raise ``ConfigError`` if somebody asks for columns that the source has not got, or has with another type."""
    for field in schema.fields:
        kind = ENTRIES.get(field.name)
        found = field.dataType.simpleString().upper()
        if kind is None:
            raise ConfigError(f"format culm has no column {field.name!r}; it has {', '.join(ENTRIES)}")
        if kind != found:
            raise ConfigError(f"the column {field.name!r} of format culm is {kind}, not {found}")
