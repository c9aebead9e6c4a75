"""The verdicts of a report as columns in this process: some 40 bytes an entry, sorted by log, number and verdict."""

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


NO_ENTRY = "a row is no entry: its seqnum is not from 1 to 2^64 - 1"
_FORK = re.compile(r"fork at ([0-9]{1,20})")
_PLACE = re.compile(r" at [0-9]+$")
_MOST_LETTERS = 80  # of a reason


class Entries:
    """All entries. ``logs`` ascend; the columns have a row for each entry, those of a log begin at ``starts``.

    ``log`` is the position in ``logs``, ``state`` that of the verdict in ``VERDICTS``, ``payload`` that in ``STATES``,
    ``forked_at`` the number that the reason names (0: none), ``reason`` the position in ``reasons`` of its words.
    ``is_bad``: the signature is.
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
        """The runs of the log at that position."""
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
    """Batches one after the other; logs and reasons get numbers as they come."""

    def __init__(self) -> None:
        self.logs: dict[Log, int] = {}
        self.reasons: dict[str, int] = {}
        self._columns: dict[str, list[npt.NDArray[Any]]] = {name: [] for name in _KINDS}

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """What was read, as one array for each column."""
        return {name: np.concatenate([np.empty(0, kind), *self._columns[name]]) for name, kind in _KINDS.items()}

    def add(self, batch: pa.RecordBatch) -> None:
        """Take the rows of a batch."""
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
        """The number of each row's log. Rows of one log mostly stand together."""
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
        """Of each row the number of its reason's words, the position of the fork, whether the signature is bad."""
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
    """Of each row the position of its value among the distinct ones; null is one of them."""
    found = column.dictionary_encode("encode")
    return np.asarray(found.indices).astype(np.int64), found.dictionary.to_pylist()


def _codes(column: pa.Array, names: Sequence[str], what: str) -> npt.NDArray[np.int8]:
    """The positions of names; ``CulmError`` for one that is not known."""
    indices, values = _encoded(column)
    unknown = set(values) - set(names)
    if unknown:
        raise CulmError(f"{min(unknown, key=repr)!r} is no {what}")
    codes: npt.NDArray[np.int8] = np.array([names.index(value) for value in values], np.int8)[indices]
    return codes


def _words(reason: str | None) -> str:
    """A reason without its numbers: of ``fork at 7`` and the like the words alone."""
    if reason is None:
        return "no reason given"
    return _PLACE.sub("", reason.split(":")[0])[:_MOST_LETTERS]


def _fork(reason: str | None) -> int:
    found = _FORK.fullmatch(reason or "")
    number = int(found[1]) if found else 0
    return number if number < 2**64 else 0
