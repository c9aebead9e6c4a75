"""The verdicts as columns of numpy in this process: some 40 bytes an entry, sorted by log, number and verdict.

Authors, verdicts, payload states and reasons repeat, so a row has small numbers for them, and lists have their texts.
Sorted so, neighbouring rows answer most questions: where a log begins, which numbers follow each other, which of
several entries of a number has the best verdict.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from culm.errors import CulmError
from culm.spark.payload import STATES
from culm.spark.verdicts import BAD_SIGNATURE, VERDICTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt
    import pyarrow as pa

    from culm.spark.fields import Flags, Numbers, Offsets
    from culm.types import Log


NO_ENTRY = "a row is not an entry: its numbers must be whole, its seqnum 1 to 2^64 - 1"
_FORK = re.compile(r"fork at ([0-9]{1,20})")
_PLACE = re.compile(r" at [0-9]+$")
_MOST_LETTERS = 80  # Of a reason's words. A table can hold anything there; longer texts would break the page's table.


class Entries:
    """All entries. ``logs`` ascend; the other columns have a row for each entry, and a log's rows begin at ``starts``.

    ``log`` is a position in ``logs``, ``state`` one in ``VERDICTS``, ``payload`` one in ``STATES``, ``reason`` one in
    ``reasons``. ``forked_at`` is the fork that the reason names, 0 if it names none. ``is_bad``: the signature is bad.

    ``CulmError`` for a row that is not an entry, and for a verdict or payload state that is unknown.
    """

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        read = _Read()
        for batch in batches:
            if len(batch):
                read.add(batch)
        self.reasons = list(read.reasons)
        self.logs = sorted(read.logs)
        rank = np.empty(len(self.logs), np.int32)
        rank[[read.logs[log] for log in self.logs]] = np.arange(len(self.logs))
        columns = read.columns()
        self.log: npt.NDArray[np.int32] = rank[columns["log"]]
        order = np.lexsort((columns["state"], columns["number"], self.log))
        self.log = self.log[order]
        self.number: Numbers = columns["number"][order]
        self.state: npt.NDArray[np.int8] = columns["state"][order]
        self.payload: npt.NDArray[np.int8] = columns["payload"][order]
        self.size: Numbers = columns["size"][order]
        self.copies: npt.NDArray[np.int64] = columns["copies"][order]
        self.forked_at: Numbers = columns["forked_at"][order]
        self.reason: npt.NDArray[np.int32] = columns["reason"][order]
        self.is_bad: Flags = columns["is_bad"][order]
        self.starts: Offsets = np.searchsorted(self.log, np.arange(len(self.logs)))

    def __len__(self) -> int:
        return len(self.log)


class Runs:
    """Neighbouring numbers of one log and one state, from ``first`` to ``last``; they ascend by log and number.

    A number that several entries have counts once, with the best of their verdicts. Entries with a bad signature have
    no part in this: anybody can make them, of any number.
    """

    def __init__(self, entries: Entries) -> None:
        rows = (~entries.is_bad).nonzero()[0]
        log, number, state = entries.log[rows], entries.number[rows], entries.state[rows]
        again = np.zeros(len(rows), np.bool_)
        again[1:] = (log[1:] == log[:-1]) & (number[1:] == number[:-1])
        log, number, state = log[~again], number[~again], state[~again]
        begins = np.ones(len(log), np.bool_)
        begins[1:] = (log[1:] != log[:-1]) | (number[1:] != number[:-1] + np.uint64(1)) | (state[1:] != state[:-1])
        starts = begins.nonzero()[0]
        self.log: npt.NDArray[np.int32] = log[starts]
        self.state: npt.NDArray[np.int8] = state[starts]
        self.first: Numbers = number[starts]
        self.last: Numbers = number[np.append(starts[1:], len(log)) - 1] if len(starts) else number

    def of_log(self, log: int) -> slice:
        """The runs of the log at a position in ``Entries.logs``."""
        return slice(int(np.searchsorted(self.log, log)), int(np.searchsorted(self.log, log, "right")))


def unsigned_of(column: pa.Array) -> Numbers:
    """The unsigned 64-bit numbers of a column; ``CulmError`` if there is anything else in it."""
    import pyarrow as pa

    if not pa.types.is_decimal128(column.type) or column.type.scale:
        try:
            column = column.cast(pa.decimal128(38, 0))
        except pa.ArrowException:
            raise CulmError(NO_ENTRY) from None
    words = np.frombuffer(column.buffers()[1], "<u8").reshape(-1, 2)[column.offset : column.offset + len(column)]
    if column.null_count or words[:, 1].any():
        raise CulmError(NO_ENTRY)
    return words[:, 0]


class _Read:
    """Reads batch after batch; logs and reasons are numbered in the order in which they first appear."""

    def __init__(self) -> None:
        self.logs: dict[Log, int] = {}
        self.reasons: dict[str, int] = {}
        self._columns: dict[str, list[npt.NDArray[Any]]] = {name: [] for name in _KINDS}

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """One array for each column, of all batches."""
        return {name: np.concatenate([np.empty(0, kind), *self._columns[name]]) for name, kind in _KINDS.items()}

    def add(self, batch: pa.RecordBatch) -> None:
        number = unsigned_of(batch.column("seqnum"))
        if not number.all():
            raise CulmError(NO_ENTRY)
        reason, forked_at, is_bad = self._reasons(batch.column("reason"))
        made: dict[str, npt.NDArray[Any]] = {
            "log": self._logs(batch.column("author"), unsigned_of(batch.column("log_id"))),
            "number": number,
            "state": _codes(batch.column("verdict"), VERDICTS, "verdict"),
            "payload": _codes(batch.column("payload"), STATES, "state of a payload"),
            "size": unsigned_of(batch.column("size")),
            "copies": np.asarray(batch.column("copies").fill_null(0)).astype(np.int64),
            "forked_at": forked_at,
            "reason": reason,
            "is_bad": is_bad,
        }
        for name, column in made.items():
            self._columns[name].append(column.astype(_KINDS[name]))

    def _logs(self, authors: pa.Array, ids: Numbers) -> npt.NDArray[np.int32]:
        """The number of each row's log. Rows of one log mostly follow each other, so a loop over the runs is quick."""
        indices, values = _encoded(authors)
        begins = np.ones(len(ids), np.bool_)
        begins[1:] = (indices[1:] != indices[:-1]) | (ids[1:] != ids[:-1])
        starts = begins.nonzero()[0]
        found = [
            self.logs.setdefault((values[author], log_id), len(self.logs))
            for author, log_id in zip(indices[starts].tolist(), ids[starts].tolist(), strict=True)
        ]
        return np.repeat(np.array(found, np.int32), np.diff(np.append(starts, len(ids))))

    def _reasons(self, column: pa.Array) -> tuple[npt.NDArray[Any], Numbers, Flags]:
        """For each row the number of its reason's words, the fork it names (0: none), whether the signature is bad."""
        indices, values = _encoded(column)
        words = np.array([self.reasons.setdefault(_words(text), len(self.reasons)) for text in values], np.int32)
        forks = np.array([_fork(text) for text in values], np.uint64)
        bad = np.array([text == BAD_SIGNATURE for text in values], np.bool_)
        return words[indices], forks[indices], bad[indices]


_KINDS: dict[str, Any] = {
    "log": np.int32,
    "number": np.uint64,
    "state": np.int8,
    "payload": np.int8,
    "size": np.uint64,
    "copies": np.int64,
    "forked_at": np.uint64,
    "reason": np.int32,
    "is_bad": np.bool_,
}


def _encoded(column: pa.Array) -> tuple[Offsets, list[Any]]:
    """For each row the position of its value in the list of distinct values, in which null is a value."""
    found = column.dictionary_encode("encode")
    return np.asarray(found.indices).astype(np.int64), found.dictionary.to_pylist()


def _codes(column: pa.Array, names: Sequence[str], what: str) -> npt.NDArray[np.int8]:
    """The positions of a column's values in ``names``; ``CulmError`` for any other value."""
    indices, values = _encoded(column)
    unknown = set(values) - set(names)
    if unknown:
        raise CulmError(f"{min(unknown, key=repr)!r} is not a {what}; expected {', '.join(names)}")
    codes: npt.NDArray[np.int8] = np.array([names.index(value) for value in values], np.int8)[indices]
    return codes


def _words(reason: str | None) -> str:
    """A reason without its numbers, so that ``fork at 7`` and ``fork at 9`` are counted together."""
    if reason is None:
        return "no reason given"
    return _PLACE.sub("", reason.split(":")[0])[:_MOST_LETTERS]


def _fork(reason: str | None) -> int:
    found = _FORK.fullmatch(reason or "")
    number = int(found[1]) if found else 0
    return number if number < 2**64 else 0
