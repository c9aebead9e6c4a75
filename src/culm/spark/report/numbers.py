"""The numbers of a report: what they are called, and how they are kept as Parquet.

Every table of the page is one of these. Those with a row for each log, author, fork or reject can be large and are only
written by Spark; of them the page shows some rows. The others are small whatever the inputs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from culm.spark.columns import UNSIGNED, Columns
from culm.spark.payload import MISMATCH, SIZE_MISMATCH, STATES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa

    from culm.spark.report.strips import Strip

SUM = "DECIMAL(38,0)"
"""The SQL type of a sum of unsigned 64-bit numbers."""

WRONG_PAYLOADS = (MISMATCH, SIZE_MISMATCH)

MOST_AUTHORS, MOST_FORKS, MOST_REJECTS, MOST_REASONS = 25, 50, 50, 30
"""How many rows of these tables a page shows."""

PROOF_BYTES = 4096
"""How much of one proof a page shows; two entries have some 600."""


class LogNumbers(NamedTuple):
    """One log. Sequence numbers are those of entries with a good signature: others can be made by anybody.

    ``newest`` is the greatest number held (0: none), ``held`` how many numbers are, ``held_verified`` how many by a
    verified entry, ``contiguous`` the number up to which all are, ``missing`` how many up to ``newest`` are not held.
    ``forked_at`` is the lowest position of a fork, None if there is none. Bytes are of payloads.
    """

    author: bytes
    log_id: int
    entries: int
    verified: int
    unverified: int
    invalid: int
    bad_signatures: int
    newest: int
    held: int
    held_verified: int
    contiguous: int
    missing: int
    forked_at: int | None
    payload_absent: int
    payload_forgotten: int
    payload_mismatch: int
    payload_partial: int
    payload_held: int
    payload_size_mismatch: int
    claimed_bytes: int
    held_bytes: int
    copies: int

    def payloads(self) -> dict[str, int]:
        """The entries by the state of their payload."""
        return {state: getattr(self, f"payload_{state}") for state in STATES}


LOGS = Columns(
    author="BINARY",
    log_id=UNSIGNED,
    entries="BIGINT",
    verified="BIGINT",
    unverified="BIGINT",
    invalid="BIGINT",
    bad_signatures="BIGINT",
    newest=UNSIGNED,
    held="BIGINT",
    held_verified="BIGINT",
    contiguous=UNSIGNED,
    missing=UNSIGNED,
    forked_at=UNSIGNED,
    **{f"payload_{state}": "BIGINT" for state in STATES},
    claimed_bytes=SUM,
    held_bytes=SUM,
    copies="BIGINT",
)


class AuthorNumbers(NamedTuple):
    """All logs of one author."""

    author: bytes
    logs: int
    entries: int
    verified: int
    unverified: int
    invalid: int
    forked_logs: int
    missing: int


AUTHORS = Columns(
    author="BINARY",
    logs="BIGINT",
    entries="BIGINT",
    verified="BIGINT",
    unverified="BIGINT",
    invalid="BIGINT",
    forked_logs="BIGINT",
    missing=SUM,
)


class ForkNumbers(NamedTuple):
    """One fork. Where no proof was written, only where it is and how far the log is whole."""

    author: bytes
    log_id: int
    position: int
    case: str | None
    first_seq: int | None
    second_seq: int | None
    proof: bytes | None
    valid_to: int


class RejectNumbers(NamedTuple):
    """What could not be read of one source for one reason; numbers in the reason are ``#``."""

    source: str | None
    reason: str | None
    rejects: int
    first_offset: int | None


REJECTED = Columns(source="STRING", reason="STRING", rejects="BIGINT", first_offset="BIGINT")


class ReasonNumbers(NamedTuple):
    """Why entries are not verified."""

    verdict: str
    reason: str
    entries: int


class PayloadNumbers(NamedTuple):
    """Entries of one verdict with their payload in one state, and the bytes that they claim."""

    verdict: str
    payload: str
    entries: int
    claimed_bytes: int


class CopiesNumbers(NamedTuple):
    """Entries that were found ``low`` to ``high`` times in the inputs."""

    low: int
    high: int
    entries: int


class CompletenessNumbers(NamedTuple):
    """Logs of which this share is held and verified: from ``percent`` on, below the next; None if none has a number."""

    percent: int | None
    logs: int


class LengthNumbers(NamedTuple):
    """Logs with ``low`` to ``high`` entries, and logs whose newest number is in between."""

    low: int
    high: int
    logs_by_entries: int
    logs_by_newest: int


class GrowthNumbers(NamedTuple):
    """Entries of all logs with numbers up to ``seqnum``; bytes of payloads that they claim, and that are held."""

    seqnum: int
    entries: int
    verified: int
    claimed_bytes: int
    held_bytes: int


class CoverageNumbers(NamedTuple):
    """A stretch of a log's numbers, and how many of them are held by which entries."""

    author: bytes
    log_id: int
    first: int
    last: int
    verified: int
    unverified: int
    invalid: int
    missing: int


class CostNumbers(NamedTuple):
    """A stage of the verification."""

    stage: str
    seconds: float | None
    cpu_seconds: float | None


SMALL = {
    "reasons": Columns(verdict="STRING", reason="STRING", entries="BIGINT"),
    "payloads": Columns(verdict="STRING", payload="STRING", entries="BIGINT", claimed_bytes=SUM),
    "copies": Columns(low=UNSIGNED, high=UNSIGNED, entries="BIGINT"),
    "completeness": Columns(percent="BIGINT", logs="BIGINT"),
    "lengths": Columns(low=UNSIGNED, high=UNSIGNED, logs_by_entries="BIGINT", logs_by_newest="BIGINT"),
    "growth": Columns(seqnum=UNSIGNED, entries="BIGINT", verified="BIGINT", claimed_bytes=SUM, held_bytes=SUM),
    "coverage": Columns(
        author="BINARY",
        log_id=UNSIGNED,
        first=UNSIGNED,
        last=UNSIGNED,
        verified="BIGINT",
        unverified="BIGINT",
        invalid="BIGINT",
        missing=UNSIGNED,
    ),
    "cost": Columns(stage="STRING", seconds="DOUBLE", cpu_seconds="DOUBLE"),
}
"""The columns of the small tables. Each is a file ``numbers/NAME.parquet``."""


@dataclass(frozen=True, slots=True)
class Totals:
    """What everything adds up to. ``missing``: numbers not held, of all logs up to their newest."""

    entries: int
    verified: int
    unverified: int
    invalid: int
    logs: int
    authors: int
    forked_logs: int
    missing: int
    wrong_payloads: int
    rejects: int


@dataclass(frozen=True, slots=True)
class Numbers:
    """Everything that a page shows.

    ``troubled`` and ``largest`` are rows of the table of logs, ``authors``, ``forks`` and ``rejects`` the first rows of
    theirs; ``forks_in_all`` and ``rejects_in_all`` say how many rows those have, ``proofs`` whether there are proofs of
    forks. ``said`` is what ``summary.json`` of the verification says, or a state; ``of_state``: it is a state.
    """

    name: str
    made: str
    totals: Totals
    troubled: Sequence[LogNumbers] = ()
    largest: Sequence[LogNumbers] = ()
    strips: Mapping[tuple[bytes, int], Strip] = field(default_factory=dict)
    authors: Sequence[AuthorNumbers] = ()
    forks: Sequence[ForkNumbers] = ()
    forks_in_all: int = 0
    proofs: bool = False
    rejects: Sequence[RejectNumbers] = ()
    rejects_in_all: int = 0
    reasons: Sequence[ReasonNumbers] = ()
    payloads: Sequence[PayloadNumbers] = ()
    copies: Sequence[CopiesNumbers] = ()
    completeness: Sequence[CompletenessNumbers] = ()
    lengths: Sequence[LengthNumbers] = ()
    growth: Sequence[GrowthNumbers] = ()
    cost: Sequence[CostNumbers] = ()
    said: Mapping[str, object] = field(default_factory=dict)
    of_state: bool = False
    seconds: float = 0.0

    @property
    def coverage(self) -> list[CoverageNumbers]:
        """The cells of all strips as rows."""
        return [
            CoverageNumbers(author, log_id, cell.first, cell.last, *cell.counts, cell.missing)
            for (author, log_id), strip in self.strips.items()
            for cell in strip.cells
        ]


def write_small(numbers: Numbers, folder: Path) -> None:
    """Write the small tables as Parquet files into a folder."""
    import pyarrow as pa
    from pyarrow import parquet

    for name, columns in SMALL.items():
        schema = schema_of(columns)
        rows = getattr(numbers, name)
        arrays = [pa.array([row[at] for row in rows], kind) for at, kind in enumerate(schema.types)]
        parquet.write_table(pa.Table.from_arrays(arrays, schema=schema), folder / f"{name}.parquet")


def schema_of(columns: Columns) -> pa.Schema:
    """The columns of a table of numbers as Arrow has them."""
    import pyarrow as pa

    kinds = {
        "BINARY": pa.binary(),
        "STRING": pa.string(),
        "BIGINT": pa.int64(),
        "DOUBLE": pa.float64(),
        UNSIGNED: pa.decimal128(20, 0),
        SUM: pa.decimal128(38, 0),
    }
    return pa.schema([(name, kinds[kind]) for name, kind in columns.types.items()])
