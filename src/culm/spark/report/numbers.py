"""The numbers of a report: their names and meaning, and their columns as Parquet.

Every table of the page is one of these. The tables of logs, authors, forks and rejects can be large: they are only
written, and the page shows some of their rows. All others are small whatever the inputs.
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
"""How many rows of these tables a page shows. They bound the page's size; the tables beside it have all rows."""

PROOF_BYTES = 4096
"""How many bytes of a proof a page shows. A proof has some 600; a table that somebody made could hold anything."""


class LogNumbers(NamedTuple):
    """One log. Numbers of entries with a bad signature do not count, because anybody can make such entries.

    ``newest`` is the greatest number held (0: none), ``held`` counts the numbers that are held, ``held_verified`` those
    of them that a verified entry has. Up to ``contiguous`` all numbers are held and verified. ``missing`` counts the
    numbers up to ``newest`` that are not held. ``forked_at`` is the lowest position of a fork, None if there is none.
    Bytes are of payloads: ``claimed_bytes`` as entries say, ``held_bytes`` of those that were read whole.
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
    """One fork. ``case``, the two numbers and ``proof`` are None if the verification wrote no proofs."""

    author: bytes
    log_id: int
    position: int
    case: str | None
    first_seq: int | None
    second_seq: int | None
    proof: bytes | None
    valid_to: int


class RejectNumbers(NamedTuple):
    """The rejects of one source with one reason. Numbers in the reason are ``#``, so that like reasons count as one."""

    source: str | None
    reason: str | None
    rejects: int
    first_offset: int | None


REJECTED = Columns(source="STRING", reason="STRING", rejects="BIGINT", first_offset="BIGINT")


class ReasonNumbers(NamedTuple):
    """How many entries have one verdict, not ``verified``, for one reason."""

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
    """Logs with ``percent`` to just below ``percent`` + 10 of their numbers held and verified.

    100 means all; None means that the logs have no number at all, only entries with bad signatures.
    """

    percent: int | None
    logs: int


class LengthNumbers(NamedTuple):
    """How many logs have ``low`` to ``high`` entries, and how many have their newest number in that range."""

    low: int
    high: int
    logs_by_entries: int
    logs_by_newest: int


class GrowthNumbers(NamedTuple):
    """Entries of all logs with numbers up to ``seqnum``, and the bytes of their payloads, claimed and held."""

    seqnum: int
    entries: int
    verified: int
    claimed_bytes: int
    held_bytes: int


class CoverageNumbers(NamedTuple):
    """One cell of a strip: a stretch of a log's numbers, and how many of them have which verdict."""

    author: bytes
    log_id: int
    first: int
    last: int
    verified: int
    unverified: int
    invalid: int
    missing: int


class CostNumbers(NamedTuple):
    """A stage of the verification, as its summary tells of it; None for what it does not tell."""

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
    """The totals of all logs. ``missing``: numbers up to each log's newest that are not held."""

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

    ``troubled`` and ``largest`` are rows of the table of logs; ``authors``, ``forks`` and ``rejects`` are the first
    rows of their tables, which have ``forks_in_all`` and ``rejects_in_all`` rows. ``proofs``: the verification wrote
    proofs of forks. ``said`` has the counts and times of the verification's ``summary.json``, or of a state's manifest.
    ``of_state``: the report is on a state. ``seconds``: the time until the page was drawn.
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
    """Write the small tables into a folder, each as a file ``NAME.parquet``."""
    import pyarrow as pa
    from pyarrow import parquet

    for name, columns in SMALL.items():
        schema = schema_of(columns)
        rows = getattr(numbers, name)
        arrays = [pa.array([row[at] for row in rows], kind) for at, kind in enumerate(schema.types)]
        parquet.write_table(pa.Table.from_arrays(arrays, schema=schema), folder / f"{name}.parquet")


def schema_of(columns: Columns) -> pa.Schema:
    """The Arrow schema of a table of numbers."""
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
