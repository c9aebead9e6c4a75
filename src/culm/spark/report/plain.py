"""Counting in this process, without Spark, for up to ``SMALL_ENTRIES`` verdicts.

The tables and counts are the same as those of ``culm.spark.report.sql``; the tests compare the two. A change to what is
counted is a change to both.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from culm.spark.arrays import decimals
from culm.spark.forks import FORKS
from culm.spark.output import write_rows
from culm.spark.payload import HELD, STATES, rank
from culm.spark.report.entries import Entries, Runs
from culm.spark.report.numbers import (
    AUTHORS,
    LOGS,
    MOST_AUTHORS,
    MOST_FORKS,
    MOST_REASONS,
    MOST_REJECTS,
    PROOF_BYTES,
    REJECTED,
    WRONG_PAYLOADS,
    AuthorNumbers,
    ForkNumbers,
    LogNumbers,
    ReasonNumbers,
    RejectNumbers,
    schema_of,
)
from culm.spark.report.strips import Counted, strips
from culm.spark.report.sums import digits, grouped, magnitudes, wide_sums
from culm.spark.verdicts import UNVERIFIED, VERDICTS, VERIFIED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa

    from culm.spark.columns import Columns
    from culm.spark.fields import Flags, Numbers, Offsets
    from culm.spark.report.counting import CountedEntries, CountedLogs, Kinds
    from culm.spark.report.source import Source
    from culm.spark.report.strips import Piece, Strip
    from culm.types import Log

_NUMBER = re.compile(r"\b(0x[0-9a-f]+|[0-9a-f]*[0-9][0-9a-f]*)\b", re.ASCII)
_DIGITS = 21  # how many numbers of digits there are: a 64-bit number has 0 (none) to 20
_NO_PERCENT = 11  # stands for null among the tens of percent, which go from 0 to 10


class PlainCounts:
    """``culm.spark.report.counting.Counting`` without Spark. ``place`` is the folder for the tables of the report.

    All verdicts are read at once. ``CulmError`` if one makes no sense or a file cannot be read.
    """

    def __init__(self, source: Source, place: Path) -> None:
        self._source = source
        self._place = place
        self._entries = Entries(source.batches())
        self._runs = Runs(self._entries)
        self._proofs = source.proof_rows()
        self._authors = list(dict.fromkeys(author for author, _ in self._entries.logs))

    # -- logs

    def logs(self, most: int) -> CountedLogs:
        """Write the table of logs; see ``Counting``."""
        counted = self._counted()
        held, verified, newest = self._held()
        forked_at, is_forked = self._forked()
        missing = newest - held
        columns = {
            **counted,
            "log_id": decimals(np.array([log_id for _, log_id in self._entries.logs], np.uint64)),
            "newest": decimals(newest),
            "held": held.astype(np.int64),
            "held_verified": verified.astype(np.int64),
            "contiguous": decimals(self._contiguous()),
            "missing": decimals(missing),
            "forked_at": _with_nulls(decimals(forked_at), is_forked),
        }
        self._logs = _table(LOGS, {**columns, "author": [author for author, _ in self._entries.logs]})
        _write(self._logs, self._place / "logs")
        self._missing, self._is_forked = missing, is_forked
        trouble: Offsets = sum(
            (np.asarray(columns[name]) for name in ("invalid", *(f"payload_{state}" for state in WRONG_PAYLOADS))),
            start=np.asarray(columns[UNVERIFIED]),
        )
        order = np.lexsort((-trouble, ~is_forked))
        troubled = order[(is_forked | (trouble > 0))[order]][:most]
        largest = np.argsort(-np.asarray(columns["entries"]), kind="stable")[:most]
        return (
            [LogNumbers(*row) for row in _rows(self._logs, troubled)],
            [LogNumbers(*row) for row in _rows(self._logs, largest)],
            self._kinds_of_logs(np.asarray(columns["entries"]).astype(np.uint64), newest, verified),
        )

    def _counted(self) -> dict[str, Any]:
        """The columns of ``LOGS`` that are sums over the entries of a log."""
        entries, count = self._entries, len(self._entries.logs)

        def of_logs(chosen: Flags) -> Offsets:
            return np.bincount(entries.log[chosen], minlength=count).astype(np.int64)

        held_bytes = np.where(entries.payload == rank(HELD), entries.size, np.uint64(0))
        copies = np.zeros(count, np.int64)
        np.add.at(copies, entries.log, entries.copies)
        return {
            "entries": np.bincount(entries.log, minlength=count).astype(np.int64),
            **{name: of_logs(entries.state == at) for at, name in enumerate(VERDICTS)},
            "bad_signatures": of_logs(entries.is_bad),
            **{f"payload_{name}": of_logs(entries.payload == rank(name)) for name in STATES},
            "claimed_bytes": wide_sums(entries.size, entries.log, count).decimals(),
            "held_bytes": wide_sums(held_bytes, entries.log, count).decimals(),
            "copies": copies,
        }

    def _held(self) -> tuple[Numbers, Numbers, Numbers]:
        """For each log how many numbers are held, how many of them by a verified entry, and the greatest."""
        runs, count = self._runs, len(self._entries.logs)
        length = runs.last - runs.first + np.uint64(1)
        held, verified, newest = (np.zeros(count, np.uint64) for _ in range(3))
        np.add.at(held, runs.log, length)
        is_verified = runs.state == VERDICTS.index(VERIFIED)
        np.add.at(verified, runs.log[is_verified], length[is_verified])
        np.maximum.at(newest, runs.log, runs.last)
        return held, verified, newest

    def _contiguous(self) -> Numbers:
        found = np.zeros(len(self._entries.logs), np.uint64)
        whole = (self._runs.first == np.uint64(1)) & (self._runs.state == VERDICTS.index(VERIFIED))
        found[self._runs.log[whole]] = self._runs.last[whole]
        return found

    def _forked(self) -> tuple[Numbers, Flags]:
        """For each log the lowest position of a fork, and whether there is one. Proofs count before reasons."""
        entries, count = self._entries, len(self._entries.logs)
        position = np.full(count, 2**64 - 1, np.uint64)
        is_forked = np.zeros(count, np.bool_)
        said = entries.forked_at > 0
        np.minimum.at(position, entries.log[said], entries.forked_at[said])
        is_forked[entries.log[said]] = True
        proved: dict[Log, int] = {}
        for author, log_id, at, *_ in self._proofs or ():
            log = bytes(author), int(log_id)
            proved[log] = min(int(at), proved.get(log, int(at)))
        if proved:
            for at_log, log in enumerate(entries.logs):
                if log in proved:
                    position[at_log], is_forked[at_log] = proved[log], True
        return np.where(is_forked, position, np.uint64(0)), is_forked

    def _kinds_of_logs(self, entries: Numbers, newest: Numbers, verified: Numbers) -> Kinds:
        some = newest > 0
        tens = np.where(some, verified * np.uint64(10) // np.maximum(newest, np.uint64(1)), np.uint64(0))
        percent = np.where(some, tens.astype(np.int64), _NO_PERCENT)
        kinds, group = grouped((percent, digits(entries), digits(newest)), (_NO_PERCENT + 1, _DIGITS, _DIGITS))
        logs = np.bincount(group, minlength=len(kinds)).tolist()
        missing = wide_sums(self._missing, group, len(kinds)).integers()
        forked = np.bincount(group[self._is_forked], minlength=len(kinds)).tolist()
        return [
            {
                "percent": None if tens == _NO_PERCENT else tens * 10,
                "entry_digits": entry_digits,
                "newest_digits": newest_digits,
                "logs": logs[at],
                "missing": missing[at],
                "forked": forked[at],
            }
            for at, (tens, entry_digits, newest_digits) in enumerate(kinds)
        ]

    # -- authors

    def authors(self) -> tuple[list[AuthorNumbers], int]:
        """Write the table of authors; see ``Counting``."""
        numbers = {author: at for at, author in enumerate(self._authors)}
        group = np.array([numbers[author] for author, _ in self._entries.logs], np.int64)
        count = len(numbers)
        columns: dict[str, Any] = {"author": self._authors, "logs": np.bincount(group, minlength=count)}
        for name in ("entries", *VERDICTS):
            sums = np.zeros(count, np.int64)
            np.add.at(sums, group, np.asarray(self._logs.column(name)))
            columns[name] = sums
        columns["forked_logs"] = np.bincount(group[self._is_forked], minlength=count)
        columns["missing"] = wide_sums(self._missing, group, count).decimals()
        table = _table(AUTHORS, columns)
        _write(table, self._place / "authors")
        first = np.argsort(-columns["entries"], kind="stable")[:MOST_AUTHORS]
        return [AuthorNumbers(*row) for row in _rows(table, first)], count

    # -- entries

    def entries(self) -> CountedEntries:
        """Count entries, reasons and copies; see ``Counting``."""
        entries = self._entries
        length, first = magnitudes(entries.number)
        columns = (entries.state.astype(np.int64), entries.payload.astype(np.int64), length, first)
        kinds, group = grouped(columns, (len(VERDICTS), len(STATES), _DIGITS, 10))
        counts = np.bincount(group, minlength=len(kinds)).tolist()
        sizes = wide_sums(entries.size, group, len(kinds)).integers()
        rows = [
            {
                "verdict": VERDICTS[verdict],
                "payload": STATES[payload],
                "digits": number_digits,
                "digit": digit,
                "entries": counts[at],
                "bytes": sizes[at],
            }
            for at, (verdict, payload, number_digits, digit) in enumerate(kinds)
        ]
        length, first = magnitudes(np.maximum(entries.copies, 0).astype(np.uint64))
        found, group = grouped((length, first), (_DIGITS, 10))
        copies = [(*kind, count) for kind, count in zip(found, np.bincount(group).tolist(), strict=True)]
        return rows, self._reasons(), copies

    def _reasons(self) -> list[ReasonNumbers]:
        entries = self._entries
        others = entries.state != VERDICTS.index(VERIFIED)
        columns = (entries.state[others].astype(np.int64), entries.reason[others].astype(np.int64))
        kinds, group = grouped(columns, (len(VERDICTS), max(1, len(entries.reasons))))
        counts = np.bincount(group, minlength=len(kinds)).tolist()
        found = [
            ReasonNumbers(VERDICTS[verdict], entries.reasons[reason], count)
            for (verdict, reason), count in zip(kinds, counts, strict=True)
        ]
        return sorted(found, key=lambda row: (-row.entries, row.verdict, row.reason))[:MOST_REASONS]

    # -- forks and rejects

    def forks(self) -> tuple[list[ForkNumbers], int]:
        """Write the table of forks; see ``Counting``."""
        rows = self._proofs
        if rows is None:
            forked = _rows(
                self._logs.select(["author", "log_id", "forked_at", "contiguous"]), self._is_forked.nonzero()[0]
            )
            rows = [(*row[:3], None, None, None, None, row[3]) for row in forked]
        write_rows(rows, FORKS, self._place / "forks")
        found = [
            ForkNumbers(
                bytes(author),
                int(log_id),
                int(position),
                case,
                None if first is None else int(first),
                None if second is None else int(second),
                None if proof is None else bytes(proof[:PROOF_BYTES]),
                int(valid_to),
            )
            for author, log_id, position, case, first, second, proof, valid_to in sorted(rows, key=lambda row: row[:3])[
                :MOST_FORKS
            ]
        ]
        return found, len(rows)

    def rejects(self) -> tuple[list[RejectNumbers], int]:
        """Write the table of rejects by kind; see ``Counting``."""
        counts: Counter[tuple[str | None, str | None]] = Counter()
        first: dict[tuple[str | None, str | None], int | None] = {}
        for source, offset, reason in self._source.reject_rows():
            kind = source, None if reason is None else _NUMBER.sub("#", reason)
            counts[kind] += 1
            known = first.setdefault(kind, offset)
            if offset is not None and (known is None or offset < known):
                first[kind] = offset
        rows = [RejectNumbers(*kind, count, first[kind]) for kind, count in counts.items()]
        write_rows(rows, REJECTED, self._place / "rejects")
        rows.sort(key=lambda row: (-row.rejects, row.source is not None, row.source or "", row.reason or ""))
        return rows[:MOST_REJECTS], len(rows)

    # -- strips

    def strips(self, newest: Mapping[Log, int]) -> dict[Log, Strip]:
        """Count the cells of strips; see ``Counting``."""
        positions = {log: at for at, log in enumerate(self._entries.logs) if log in newest}

        def count(wanted: Mapping[Log, Sequence[Piece]]) -> dict[Log, list[Counted]]:
            return {log: self._cells(positions[log], pieces) for log, pieces in wanted.items()}

        return strips(newest, count)

    def _cells(self, log: int, pieces: Sequence[Piece]) -> list[Counted]:
        """The cells of a log's pieces in which something is held."""
        of_log = self._runs.of_log(log)
        first, last, state = self._runs.first[of_log], self._runs.last[of_log], self._runs.state[of_log]
        found: list[Counted] = []
        for number, piece in enumerate(pieces):
            begin, end = np.uint64(piece.first), np.uint64(piece.last)
            reached = (first <= end) & (last >= begin)
            low, high = np.maximum(first[reached], begin) - begin, np.minimum(last[reached], end) - begin
            found += _cells(number, piece, low, high, state[reached])
        return found


def _cells(number: int, piece: Piece, low: Numbers, high: Numbers, state: Any) -> list[Counted]:  # noqa: ANN401
    """The cells of one piece in which something is held.

    ``low`` and ``high`` are the ends of the runs, counted from the piece's first number. A run that reaches into
    several cells is cut into a part for each.
    """
    width = np.uint64(piece.width)
    lows = np.array([cell * piece.width for cell in range(piece.cells)], np.uint64)
    highs = np.array([min((cell + 1) * piece.width, piece.numbers) - 1 for cell in range(piece.cells)], np.uint64)
    begin, end = (low // width).astype(np.int64), (high // width).astype(np.int64)
    reach = end - begin + 1
    run = np.repeat(np.arange(len(low)), reach)
    cell = begin[run] + np.arange(len(run)) - np.repeat(np.cumsum(reach) - reach, reach)
    low, high, state = np.maximum(low[run], lows[cell]), np.minimum(high[run], highs[cell]), state[run]
    counts = np.zeros((len(VERDICTS), piece.cells), np.int64)
    np.add.at(counts, (state, cell), (high - low + np.uint64(1)).astype(np.int64))
    least, greatest = highs.copy(), lows.copy()
    np.minimum.at(least, cell, low)
    np.maximum.at(greatest, cell, high)
    found = []
    for at in np.unique(cell).tolist():
        verified, unverified, invalid = (int(count) for count in counts[:, at])
        lowest, highest = piece.first + int(least[at]), piece.first + int(greatest[at])
        found.append(Counted(number, at, verified, unverified, invalid, lowest, highest))
    return found


# -- tables ---------------------------------------------------------------------------------------------------------


def _table(columns: Columns, values: Mapping[str, Any]) -> pa.Table:
    """A table of these columns, from arrays or lists by name."""
    import pyarrow as pa

    schema = schema_of(columns)
    arrays = [
        value if isinstance(value, pa.Array) else pa.array(value, field.type)
        for field in schema
        for value in (values[field.name],)
    ]
    return pa.Table.from_arrays(
        [array.cast(field.type) for array, field in zip(arrays, schema, strict=True)], schema=schema
    )


def _with_nulls(column: pa.Array, is_there: Flags) -> pa.Array:
    import pyarrow as pa
    from pyarrow import compute

    return compute.if_else(pa.array(is_there), column, pa.scalar(None, column.type))


def _write(table: pa.Table, folder: Path) -> None:
    """Write a table as one Parquet file in a new folder."""
    from pyarrow import parquet

    folder.mkdir()
    parquet.write_table(table, folder / "part-0.parquet")


def _rows(table: pa.Table, chosen: Offsets) -> list[tuple[Any, ...]]:
    """Some rows, with ``int`` for decimals."""
    from decimal import Decimal

    columns = [column.to_pylist() for column in table.take(chosen).columns]
    return [
        tuple(int(value) if isinstance(value, Decimal) else value for value in row)
        for row in zip(*columns, strict=True)
    ]
