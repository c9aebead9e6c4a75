"""The numbers of a report: their names and meaning, and their columns as Parquet.

Every table of the page is one of these. The tables of logs, authors, forks and rejects can be large: they are only
written, and the page shows some of their rows. All others are small whatever the inputs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from culm.spark.report.source import Source
from culm.spark.runtime.columns import Row, Sum, Unsigned, combined
from culm.spark.runtime.shell import Result

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
    log_id: Unsigned
    entries: int
    verified: int
    unverified: int
    invalid: int
    bad_signatures: int
    newest: Unsigned
    held: int
    held_verified: int
    contiguous: Unsigned
    missing: Unsigned
    forked_at: Unsigned | None
    payload_absent: int
    payload_forgotten: int
    payload_mismatch: int
    payload_partial: int
    payload_held: int
    payload_size_mismatch: int
    claimed_bytes: Sum
    held_bytes: Sum
    copies: int


class RejectNumbers(NamedTuple):
    """The rejects of one source with one reason. Numbers in the reason are ``#``, so that like reasons count as one."""

    source: str | None
    reason: str | None
    rejects: int
    first_offset: int | None


class Reasons(NamedTuple):
    """How many entries have one verdict, not ``verified``, for one reason."""

    verdict: str
    reason: str
    entries: int


class Payloads(NamedTuple):
    """Entries of one verdict with their payload in one state, and the bytes that they claim."""

    verdict: str
    payload: str
    entries: int
    claimed_bytes: Sum


class Copies(NamedTuple):
    """Entries that were found ``low`` to ``high`` times in the inputs."""

    low: Unsigned
    high: Unsigned
    entries: int


class Completeness(NamedTuple):
    """Logs with ``percent`` to just below ``percent`` + 10 of their numbers held and verified.

    100 means all; None means that the logs have no number at all, only entries with bad signatures.
    """

    percent: int | None
    logs: int


class Lengths(NamedTuple):
    """How many logs have ``low`` to ``high`` entries, and how many have their newest number in that range."""

    low: Unsigned
    high: Unsigned
    logs_by_entries: int
    logs_by_newest: int


class Growth(NamedTuple):
    """Entries of all logs with numbers up to ``seqnum``, and the bytes of their payloads, claimed and held."""

    seqnum: Unsigned
    entries: int
    verified: int
    claimed_bytes: Sum
    held_bytes: Sum


class Coverage(NamedTuple):
    """One cell of a strip: a stretch of a log's numbers, and how many of them have which verdict."""

    author: bytes
    log_id: Unsigned
    first: Unsigned
    last: Unsigned
    verified: int
    unverified: int
    invalid: int
    missing: Unsigned


_SMALL: tuple[type[Row], ...] = Reasons, Payloads, Copies, Completeness, Lengths, Growth, Coverage
SMALL = {table.__name__.lower(): table for table in _SMALL}
"""The small tables. Each is a file ``numbers/NAME.parquet``."""


class EntryKind(NamedTuple):
    """Entries that are alike in these columns of ``stretches.Stretch``, and the bytes that they claim."""

    verdict: int
    payload: int
    magnitude: int
    found: int
    entries: int
    size: Sum


class LogKind(NamedTuple):
    """Logs by the digits of how many entries they have, and of their newest number (0: they have no number).

    ``percent`` is the share of the numbers that is held and verified, in tens; None if there is no number. ``trouble``
    counts entries that are not verified or have a wrong payload; None if there are none, and no fork. The other columns
    are those of ``Report``.
    """

    percent: int | None
    entry_digits: int
    newest_digits: int
    entries: int
    verified: int
    unverified: int
    invalid: int
    logs: int
    forked_logs: int
    missing: Sum
    wrong_payloads: int
    trouble: int | None


DescribedLog = combined("DescribedLog", __name__, LogNumbers, LogKind)
"""A log, which counts as one."""

_SUMMED = ("author", "logs", "entries", "verified", "unverified", "invalid", "forked_logs", "missing")
AuthorNumbers = combined("AuthorNumbers", __name__, LogKind, LogNumbers, only=_SUMMED)
"""All logs of one author."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report(Result):
    """The summary: the totals of all logs, the size of the page in bytes, the time in seconds.

    ``missing``: numbers up to each log's newest that are not held.
    """

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
    page_bytes: int = 0


class Numbers(NamedTuple):
    """Everything that a page shows.

    ``tables`` has the rows of ``SMALL``, by name, and some rows of the large tables: ``authors``, ``forks``,
    ``rejects``; of the table of logs those with most trouble (``troubled``), and the ``largest``. ``in_all``: how many
    forks and kinds of rejects there are. ``proofs``: the verification wrote proofs of forks. ``seconds``: the time
    until the page was drawn.
    """

    source: Source
    made: str
    totals: Report
    tables: Mapping[str, Sequence[Any]]
    in_all: Mapping[str, int]
    proofs: bool
    seconds: float
