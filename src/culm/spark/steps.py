"""What the workers do with the rows of each step, and the columns that pass between the steps.

Plain functions from rows to rows; ``culm.spark.verify`` puts them together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from culm.bamboo import Entry, is_authentic
from culm.errors import EncodingError
from culm.spark.columns import Columns
from culm.spark.payload import ABSENT, STATES, PayloadFrame, is_frame, rank
from culm.spark.walk import Fact, Finding, walk
from culm.store.schema import to_sql

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa

    Row = tuple[Any, ...]

# ``record`` is an entry or a payload's frame, ``key`` its hash, ``payload`` a rank. A reject has a ``reason`` instead.
DECODED = Columns(source="STRING", offset="BIGINT", key="BINARY", record="BINARY", payload="TINYINT", reason="STRING")
UNIQUE = Columns(key="BINARY", record="BINARY", payload="TINYINT", copies="BIGINT")
FACTS = Columns(
    author="BINARY",
    log="BIGINT",
    seq="BIGINT",
    payload_hash="BINARY",
    is_entry="BOOLEAN",
    entry_hash="BINARY",
    authentic="BOOLEAN",
    is_end="BOOLEAN",
    backlink="BINARY",
    lipmaalink="BINARY",
    size="BIGINT",
    payload="STRING",
    copies="BIGINT",
)
FINDINGS = Columns(
    is_entry="BOOLEAN",
    author="BINARY",
    log="BIGINT",
    seq="BIGINT",
    reason="STRING",
    forked="BOOLEAN",
    entry_hash="BINARY",
    size="BIGINT",
    payload_hash="BINARY",
    is_end="BOOLEAN",
    payload="STRING",
    verdict="STRING",
    copies="BIGINT",
)


def mapped(
    columns: Columns, step: Callable[[Iterable[Row]], Iterator[Row]], result: Columns
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A step over rows as ``mapInArrow`` takes it."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return result.batches(step(columns.rows(batches)))

    return run


def decode(rows: Iterable[Row]) -> Iterator[Row]:
    """``FOUND`` to ``DECODED``: what is no entry and no payload's frame becomes a reject. Never fails for bytes."""
    for source, offset, encoded, state, frame, reason in rows:
        why = reason
        if why is None:
            try:
                if encoded is not None:
                    key = Entry.decode(encoded).hash
                    yield source, offset, key, encoded, rank(state or ABSENT), None
                    continue
                if frame is not None:
                    PayloadFrame.decode(frame)
                    yield source, offset, frame, frame, rank(ABSENT), None
                    continue
                why = "a row without an entry"
            except EncodingError as error:
                why = f"not an entry: {error}"
        yield source, offset, None, None, None, why


def check(rows: Iterable[Row]) -> Iterator[Fact]:
    """``UNIQUE`` to ``FACTS``: signatures are checked here, on one thread for each task."""
    for key, record, payload, copies in rows:
        if is_frame(record):
            frame = PayloadFrame.decode(record)
            yield Fact(
                author=frame.author,
                log=to_sql(frame.log_id),
                seq=to_sql(frame.seq),
                payload_hash=frame.payload_hash,
                is_entry=False,
                entry_hash=b"",
                authentic=False,
                is_end=False,
                backlink=None,
                lipmaalink=None,
                size=to_sql(frame.size),
                payload=ABSENT,
                copies=copies,
            )
            continue
        entry = Entry.decode(record)
        yield Fact(
            author=entry.author,
            log=to_sql(entry.log_id),
            seq=to_sql(entry.seq),
            payload_hash=entry.payload_hash,
            is_entry=True,
            entry_hash=key,
            authentic=is_authentic(entry),
            is_end=entry.is_end,
            backlink=entry.backlink,
            lipmaalink=entry.lipmaalink,
            size=to_sql(entry.size),
            payload=STATES[payload],
            copies=copies,
        )


def walk_logs(rows: Iterable[Row]) -> Iterator[Finding]:
    """``FACTS``, sorted by their first six columns, to ``FINDINGS``."""
    return walk(map(Fact._make, rows))
