"""Why something of a log is not held: it is wanted and missing, not asked for, forgotten, or damaged.

A person who looks at a gap wants to know whether to do something about it. A node that follows the last hundred entries
of a log lacks the others by choice, and a payload that was deleted on purpose is no loss; a payload that is wanted and
has not come is a reason to look at the peers. The store knows what is forgotten and damaged. What is wanted depends on
the interests, which the caller brings (``Wanted``).

As with ``culm.store.survey``, no answer reads a whole log. Entries cost look-ups in the runs. The payloads that lack
have to be looked at one by one, so a cell looks at the first ``MOST_LOOKED`` of them, and a count at ``MOST_COUNTED``.
"""

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from culm.bamboo import MAX_U64
from culm.ranges.runs import Runs
from culm.store.database import Database
from culm.store.records.runs import ALL, ENTRIES, NONE, PAYLOADS, around, of_log, spread
from culm.store.rows import BYTES, COUNT, FLAG, PAYLOAD_STATE, SEQ, all_rows, entry_of, find_log, first_row
from culm.store.schema import IS_INCOMPLETE, IS_VERIFIED, IS_WAITING, PayloadState, from_sql, to_sql
from culm.store.values import LogSummary
from culm.types import Run

MOST_LOOKED = 64
"""Payloads that lack in one cell and are looked at: a page has some 1,200 cells, and a look takes two microseconds."""

MOST_COUNTED = 1000
"""The same for the counts of one log, because a page has 25 logs and should be there in a tenth of a second."""

MOST_RUNS = 100
"""Entries are told apart in logs whose verified ones lie in at most so many runs, as in ``culm.store.survey``."""


class Lack(StrEnum):
    """Why a cell is not held whole. Of several reasons the one that is farthest down here counts."""

    NOTHING = "."
    UNASKED = "u"  # the interests leave it out
    FORGOTTEN = "g"  # a payload that was deleted on purpose, so it is not asked for again
    MISSING = "m"  # wanted, and not here
    DAMAGED = "d"  # a payload whose bytes had changed on the disk; it is asked for again


_URGENCY = {lack: rank for rank, lack in enumerate(Lack)}


@dataclass(frozen=True)
class Wanted:
    """What is asked for of a log: entries as ascending runs that do not touch, and payloads by number and size.

    ``payload`` is None if every payload is wanted. Without ``by_size`` it gets 0 for each size, so that no entry has to
    be decoded, which takes three times as long as the look itself.
    """

    entries: Sequence[Run]
    payload: Callable[[int, int], bool] | None = None
    by_size: bool = False


EVERYTHING = Wanted(((1, MAX_U64),))


@dataclass(frozen=True, slots=True)
class GapCounts:
    """What a log lacks below its newest entry, by reason.

    The entries are None where they were not told apart. ``all_counted``: no more payloads lack than were looked at.
    """

    entries_missing: int | None
    entries_unasked: int | None
    payloads_missing: int
    payloads_unasked: int
    forgotten: int
    damaged: int
    all_counted: bool


class Gaps:
    """What one log lacks, and why. Each answer belongs to its own moment."""

    def __init__(self, database: Database, line: LogSummary) -> None:
        self._database = database
        self._line = line
        # From a fork on nothing is wanted, so nothing is lacking there.
        self._end = MAX_U64 if line.invalid_from is None else line.invalid_from - 1

    def cells(self, wanted: Wanted, spans: Sequence[Run]) -> list[Lack]:
        """The most urgent reason why each span of the log's numbers is not held whole. The spans ascend."""
        with self._database.snapshot() as connection:
            row = find_log(connection, self._line.log)
            shown = [(low, min(high, self._end)) for low, high in spans if low <= self._end]
            entries = spread(connection, row, ENTRIES, shown)
            payloads = spread(connection, row, PAYLOADS, shown)
            lacks = []
            for span, held, complete in zip(shown, entries, payloads, strict=True):
                reasons = [self._of_entries(connection, row, wanted, span)] if held != ALL else []
                if held != NONE and complete != ALL:
                    reasons += self._of_payloads(connection, row, wanted, span, MOST_LOOKED)
                lacks.append(max(reasons, key=_URGENCY.__getitem__, default=Lack.NOTHING))
        return lacks + [Lack.NOTHING] * (len(spans) - len(shown))

    def count(self, wanted: Wanted) -> GapCounts:
        """How much the log lacks below its newest entry, by reason."""
        line = self._line
        with self._database.snapshot() as connection:
            row = find_log(connection, line.log)
            missing = self._count_entries(connection, row, wanted)
            found = Counter(self._of_payloads(connection, row, wanted, (1, MAX_U64), MOST_COUNTED))
        return GapCounts(
            entries_missing=missing,
            entries_unasked=None if missing is None else line.missing - missing,
            payloads_missing=found[Lack.MISSING],
            payloads_unasked=found[Lack.UNASKED],
            forgotten=found[Lack.FORGOTTEN],
            damaged=found[Lack.DAMAGED],
            all_counted=found.total() >= line.entries - line.payloads,
        )

    # -- entries -----------------------------------------------------------------------------------------------

    def _of_entries(self, connection: sqlite3.Connection, row: int | None, wanted: Wanted, span: Run) -> Lack:
        """Why entries of a span are not verified; nothing is lacking if all the others wait for their path."""
        if any(self._has_hole(connection, row, part) for part in _within(wanted.entries, span)):
            return Lack.MISSING
        return Lack.UNASKED if self._has_hole(connection, row, span) else Lack.NOTHING

    def _has_hole(self, connection: sqlite3.Connection, row: int | None, span: Run) -> bool:
        """Whether some number of a span is not held, not even waiting."""
        seq, high = span
        query = f"SELECT 1 FROM entries WHERE log = ? AND {IS_WAITING} AND seq = ? LIMIT 1"
        for _ in range(MOST_LOOKED):
            if seq > high:
                return False
            if (run := around(self._database, row, ENTRIES, seq)) is not None:
                seq = run[1] + 1
            elif self._line.waiting and first_row(connection.execute(query, (row, to_sql(seq))), COUNT):
                seq += 1
            else:
                return True
        return False

    def _count_entries(self, connection: sqlite3.Connection, row: int | None, wanted: Wanted) -> int | None:
        """How many entries below the newest one are wanted and missing; None if the log is too torn to tell."""
        line = self._line
        asked = list(_within(wanted.entries, (1, line.newest)))
        if not line.missing or not asked:
            return 0
        if asked == [(1, line.newest)]:
            return line.missing
        verified = of_log(connection, row or 0, ENTRIES, MOST_RUNS + 1)
        if len(verified) > MOST_RUNS or line.waiting > MOST_COUNTED:
            return None
        held = Runs(verified)
        query = f"SELECT DISTINCT seq FROM entries WHERE log = ? AND {IS_WAITING}"
        for (stored,) in all_rows(connection.execute(query, (row,)), SEQ):
            held.add(from_sql(stored), from_sql(stored))
        return sum(high - low + 1 for part in asked for low, high in held.outside(*part))

    # -- payloads ----------------------------------------------------------------------------------------------

    def _of_payloads(
        self, connection: sqlite3.Connection, row: int | None, wanted: Wanted, span: Run, most: int
    ) -> list[Lack]:
        """Why the first ``most`` payloads that lack in a span do so."""
        encoded = "encoded" if wanted.by_size else "x''"
        query = (
            f"SELECT seq, payload_state, id IN (SELECT entry FROM damaged), {encoded} FROM entries"
            f" WHERE log = ? AND seq BETWEEN ? AND ? AND {IS_VERIFIED} AND {IS_INCOMPLETE}"
            " ORDER BY seq LIMIT ?"
        )
        values = row, to_sql(span[0]), to_sql(span[1]), most
        rows = all_rows(connection.execute(query, values), SEQ, PAYLOAD_STATE, FLAG, BYTES)
        return [_of_payload(wanted, from_sql(seq), *rest) for seq, *rest in rows]


def _of_payload(wanted: Wanted, seq: int, state: int, is_damaged: int, encoded: bytes) -> Lack:
    if state == PayloadState.FORGOTTEN:
        return Lack.FORGOTTEN
    if is_damaged:
        return Lack.DAMAGED
    if wanted.payload is None or wanted.payload(seq, entry_of(encoded).size if wanted.by_size else 0):
        return Lack.MISSING
    return Lack.UNASKED


def _within(runs: Iterable[Run], span: Run) -> Iterator[Run]:
    """The parts of ascending runs that lie inside a span."""
    for low, high in runs:
        if low > span[1]:
            return
        if high >= span[0]:
            yield max(low, span[0]), min(high, span[1])
