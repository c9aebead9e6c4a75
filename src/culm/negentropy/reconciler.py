"""Reconciling two sets by messages that take turns.

One side, the initiator, learns which records it has and the other side lacks, and the reverse. The other only answers
and keeps nothing between messages. A message covers the whole set as ranges, each with a fingerprint, a list or a Skip.
A side answers range by range. Equal fingerprints: Skip. Different ones: it splits its own range into buckets and sends
their fingerprints, or the ids if there are fewer than 32. A list: the responder answers with its own list, and the
initiator compares and skips.

With 16 buckets a single difference among a million records is found in about six messages. More buckets would
save round trips but send more fingerprints of ranges that agree.

With a frame limit a message may be cut. A fingerprint of everything from there on then closes it, so that the rest is
compared in the next round. The reference implementations (C++, JavaScript, and Rust up to 0.5.2) compute that
fingerprint from the end of the range that did not fit, while on the wire it begins at the last bound that was written.
The records between are compared with nothing, and their differences are lost. Here, and in Rust since 0.5.3, the
fingerprint begins where the wire says. ``reference_bytes=True`` writes the messages of C++ and of Rust 0.5.2 instead,
so that the two can be compared byte by byte.

Specification: docs/specs/negentropy.md, "Reconciliation", "Splitting", "Frame limits".
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from itertools import islice
from math import isqrt
from typing import TYPE_CHECKING

from culm.errors import LocalProtocolError, RemoteProtocolError
from culm.negentropy.codec import (
    ID_BYTES,
    INFINITY,
    VERSION,
    VERSIONS,
    Mode,
    encode_bound,
    encode_varint,
    read_ranges,
)
from culm.negentropy.storage import Storage, alone, make_fingerprint

if TYPE_CHECKING:
    from culm.negentropy.batches import Batch

BUCKETS = 16  # as in the reference implementations; see above
# Bytes, as the references require. A frame must hold at least one split range; otherwise the session would never end.
LEAST_FRAME_LIMIT = 4096
_FRAME_RESERVE = 200  # Bytes kept free for the closing fingerprint, as many as the references keep.
# Ranges handled before the caller gets its turn, a few milliseconds of work. A range that is split counts as 16,
# because 16 fingerprints are computed for it.
_STEP_WORK = 512
_SPLIT_WORK = 16
_MOST_OF_A_RANGE = 64  # bytes: timestamp 10, prefix 33, mode and count or fingerprint; the ids of a list come on top
# Bytes of a message: below, one by one is quicker, because each step of numpy takes microseconds to begin.
_LEAST_BATCH = 2048
_ONE_BY_ONE = 256  # Ranges read one by one before a batch is tried again, because a try in vain costs as much.
_MOST_AT_FIRST = 64  # Parts of a first message. It has at most 3,841 bytes, so that it fits into every frame limit.
_LIST_BELOW = 2 * BUCKETS  # records; as in the reference implementations
SKIP, FINGERPRINT, ID_LIST = map(int, Mode)
_SKIP, _FINGERPRINT, _ID_LIST = (bytes((mode,)) for mode in Mode)

Split = Callable[[int, int, int], Sequence[tuple[int, bool]]]
"""``split(low, high, size)`` divides the positions ``low`` to before ``high`` (32 and more) of a set of ``size``
records. It returns for each part its end, and whether it is sent as a list (else as a fingerprint). A single
fingerprint is not allowed, because the other side could answer it with the same, for ever."""


def _equal_parts(low: int, high: int, parts: int) -> list[tuple[int, bool]]:
    """The first ones have a record more if the division leaves a rest."""
    count, larger = divmod(high - low, parts)
    return [(low + count * part + min(part, larger), False) for part in range(1, parts + 1)]


def even(low: int, high: int, size: int) -> list[tuple[int, bool]]:  # noqa: ARG001 - as every split
    """16 parts of equal size; the first ones have a record more if the division leaves a rest."""
    return _equal_parts(low, high, BUCKETS)


def newest_listed(low: int, high: int, size: int) -> list[tuple[int, bool]]:
    """The newest 32 records of the set as a list, so that new records are found in the first round already."""
    if high < size or high - low < 4 * BUCKETS:
        return even(low, high, size)
    return [*even(low, high - 2 * BUCKETS, size), (high, True)]


def sparing(low: int, high: int, size: int) -> list[tuple[int, bool]]:
    """Equal parts, as many as cost the fewest bytes and rounds; docs/specs/negentropy.md, "Splitting", says why.

    With it, an initiator splits ranges of fewer than 32 records, too.
    """
    return _equal_parts(low, high, _sparing_parts(high - low, size))


def _sparing_parts(count: int, size: int) -> int:
    parts = max(2, min(isqrt(count), BUCKETS))
    if count < size:
        return parts
    # If both divide by 16 from here on, parts of at most this size end as lists of the peer, after some rounds.
    most = _LIST_BELOW - 1
    while size > most * _MOST_AT_FIRST:
        most *= BUCKETS**2
    return max(parts, -(-size // most))


class _Answer:
    """An answer as it grows. It is ``full`` when the frame limit has ended it."""

    def __init__(self, storage: Storage, cut_at: int | None, *, reference_bytes: bool) -> None:
        self.out = bytearray((VERSION,))
        self.full = False
        self._storage = storage
        self._cut_at = cut_at
        self._reference_bytes = reference_bytes
        self._written = 0  # The position of the last bound written: what follows on the wire begins there.

    def fits(self, size: int) -> bool:
        """Whether so many bytes more are within the frame limit."""
        return self._cut_at is None or len(self.out) + size <= self._cut_at

    def add(self, part: bytes, high: int) -> None:
        """Ranges that reach up to the position ``high``; none of them if not all fit."""
        if not self.fits(len(part)):
            self._close(high if self._reference_bytes else self._written)
        else:
            self.out += part
            self._written = high

    @property
    def room(self) -> int | None:
        """How many ids fit; None for any number."""
        if self._cut_at is None:
            return None
        # As the references do: an id is added as long as the message, with the ids so far, is within the limit.
        return (self._cut_at - len(self.out)) // ID_BYTES + 1

    def add_list(self, head: bytes, low: int, high: int) -> None:
        """A list of our own ids behind its head, even if it passes the limit."""
        self.out += head
        self.out += encode_varint(high - low)
        self.out += self._storage.ids(low, high)
        self._written = high
        if not self.fits(0):
            self._close(high)

    def _close(self, rest: int) -> None:
        """End the answer with the fingerprint of all that follows a position."""
        self.out += encode_bound(INFINITY, b"", 0) + _FINGERPRINT
        self.out += self._storage.fingerprint(rest, len(self._storage))
        self.full = True


class Negentropy:
    """One side of a session over a ``Storage`` that does not change meanwhile.

    ``frame_size_limit``: the most bytes of a message, 0 for no limit, else at least 4096. The side that calls
    ``initiate`` finds the differences in ``have`` (ids that it holds and the other lacks, in storage order within a
    message) and in ``need``, each id once, as soon as it is known. ``split`` divides ranges of 32 and more records;
    the references do it as ``even`` does, and ``sparing`` costs less. The two sides may use different ones.
    """

    def __init__(
        self,
        storage: Storage,
        frame_size_limit: int = 0,
        *,
        reference_bytes: bool = False,
        split: Split = even,
    ) -> None:
        if frame_size_limit and frame_size_limit < LEAST_FRAME_LIMIT:
            raise ValueError(
                f"the frame limit is too small; expected 0 (no limit) or at least {LEAST_FRAME_LIMIT} bytes"
            )
        self.have: list[bytes] = []
        self.need: list[bytes] = []
        self._storage = storage
        self._cut_at = frame_size_limit - _FRAME_RESERVE if frame_size_limit else None
        self._reference_bytes = reference_bytes
        self._divide = split
        self._list_below = _LIST_BELOW  # An initiator may list fewer. A responder lists once what both would list.
        self._initiator = False
        self._known_have: set[bytes] = set()
        self._known_need: set[bytes] = set()

    def initiate(self) -> bytes:
        """The first message; this side is now the initiator. ``LocalProtocolError`` if it is called twice."""
        if self._initiator:
            raise LocalProtocolError("this session has been initiated already")
        self._initiator = True
        if self._divide is sparing:
            self._list_below = 2
        return bytes((VERSION,)) + self._split(0, 0, len(self._storage), INFINITY, b"")

    def reconcile(self, message: bytes) -> bytes | None:
        """Take the other side's message: the answer, or None if the initiator knows everything.

        ``RemoteProtocolError`` for a message that breaks the format, or a version that cannot be talked.
        """
        steps = self.reconcile_by_steps(message)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                answer: bytes | None = end.value
                return answer

    def reconcile_by_steps(self, message: bytes) -> Generator[None, None, bytes | None]:
        """``reconcile`` as a generator that yields every few milliseconds; the answer is its return value.

        A node uses it so that the message of a peer does not hold up all others.
        """
        if not message or message[0] not in VERSIONS:
            raise RemoteProtocolError("the peer sent something that is not a negentropy message")
        if message[0] != VERSION:
            if self._initiator:
                raise RemoteProtocolError(f"the peer speaks another version of negentropy (byte {message[0]:#04x})")
            return bytes((VERSION,))
        answer = yield from self._answer(message)
        return None if self._initiator and len(answer) == 1 else answer

    def _answer(self, message: bytes) -> Generator[None, None, bytes]:
        storage = self._storage
        answer = _Answer(storage, self._cut_at, reference_bytes=self._reference_bytes)
        at = 1
        low = 0  # Where the range begins.
        before = (0, b"")  # The bound there.
        last = 0  # The timestamp of the last bound written.
        # Whether the range in front is skipped. A Skip is written only if another range follows, so that a row of
        # skipped ranges costs one Skip, and the last row nothing.
        skipped = False
        work = 0
        while at < len(message):
            if (batch := self._batch(message, at, before, low)) is not None:
                skipped, last = yield from self._answer_batch(batch, answer, skipped=skipped, last=last)
                if answer.full:
                    break
                at, low, before = batch.end, int(batch.high[-1]), batch.bound(len(batch.high) - 1)
                continue
            for item in islice(read_ranges(message, at, before), _ONE_BY_ONE):
                timestamp, prefix, mode, payload, _, at = item
                work += 1
                if work > _STEP_WORK:
                    work = 0
                    yield
                high = storage.position(timestamp, prefix, low)
                if mode == SKIP or (mode == FINGERPRINT and payload == storage.fingerprint(low, high)):
                    skipped = True
                elif mode == ID_LIST and self._initiator:
                    self._note(*alone(storage.ids(low, high), payload))
                    skipped = True
                else:
                    skip = self._skip(before, last) if skipped else b""
                    if mode == FINGERPRINT:
                        answer.add(skip + self._split(before[0], low, high, timestamp, prefix), high)
                        work += _SPLIT_WORK
                    else:
                        self._list(answer, skip, before[0], low, high, timestamp, prefix)
                    if answer.full:
                        return bytes(answer.out)
                    skipped, last = False, timestamp
                low, before = high, (timestamp, prefix)
        return bytes(answer.out)

    @staticmethod
    def _skip(before: tuple[int, bytes], last: int) -> bytes:
        return encode_bound(*before, last) + _SKIP

    def _list(
        self, answer: _Answer, skip: bytes, last: int, low: int, high: int, timestamp: int, prefix: bytes
    ) -> None:
        """Answer a list with our own ids, as many as the frame limit allows.

        ``skip`` stands in front, ``last`` is the timestamp of the bound in front of the range.
        """
        room = answer.room
        if room is not None and room < high - low:
            high = low + room
            timestamp, prefix = self._storage.timestamp(high), self._storage.id(high)
        answer.add_list(skip + encode_bound(timestamp, prefix, last) + _ID_LIST, low, high)

    def _batch(self, message: bytes, at: int, before: tuple[int, bytes], low: int) -> "Batch | None":
        """Many ranges at once, if there are many, and the set and the split allow it."""
        if len(message) - at < _LEAST_BATCH or not self._storage.in_arrays or self._divide not in {even, sparing}:
            return None
        from culm.negentropy.batches import Batch  # noqa: PLC0415 - numpy takes long to load

        return Batch.read(self._storage, message, at, before, low)

    def _answer_batch(
        self, batch: "Batch", answer: _Answer, *, skipped: bool, last: int
    ) -> Generator[None, None, tuple[bool, int]]:
        """As ``_answer``, for a batch. Returns what that goes on with: ``skipped`` and ``last``."""
        unequal = batch.unequal
        if self._initiator:
            unequal = unequal & ~batch.listed
            for number, found in enumerate(batch.alone(), 1):
                self._note(*found)
                if number % _STEP_WORK == 0:
                    yield
        for answers in batch.answers(unequal, self._equal_parts_of, skipped=skipped, last=last):
            if answers.written and answer.fits(len(answers.written)):
                answer.add(answers.written, int(answers.high[-1]))
                last = batch.bound(int(answers.rows[-1]))[0]
                yield
                continue
            for part, row, mode, skips, low, high in answers.each():
                before, (timestamp, prefix) = batch.bound(row - 1), batch.bound(row)
                if mode == FINGERPRINT:
                    answer.add(part, high)
                else:
                    self._list(
                        answer, self._skip(before, last) if skips else b"", before[0], low, high, timestamp, prefix
                    )
                if answer.full:
                    return skipped, last
                last = timestamp
            yield
        return not unequal[-1], last

    def _note(self, have: Iterable[bytes], need: Iterable[bytes]) -> None:
        """Note what each side lacks."""
        for identities, found, known in ((have, self.have, self._known_have), (need, self.need, self._known_need)):
            for identity in identities:
                if identity not in known:
                    known.add(identity)
                    found.append(identity)

    def _equal_parts_of(self, count: int) -> int:
        """How many parts of equal size so many records become; 0 if they become a list, or unequal parts."""
        if count < self._list_below:
            return 0
        if self._divide is even:
            return BUCKETS
        return _sparing_parts(count, len(self._storage)) if self._divide is sparing else 0

    def _split(self, last: int, low: int, high: int, timestamp: int, prefix: bytes) -> bytes:
        """Our own range, as a list if it has few records, because a list costs less than fingerprints; else its parts.

        ``last`` is the timestamp of the bound in front of the range, ``timestamp`` and ``prefix`` are its own bound.
        """
        storage = self._storage
        count = high - low
        if count < self._list_below:
            bound = encode_bound(timestamp, prefix, last)
            return bound + _ID_LIST + encode_varint(count) + storage.ids(low, high)
        equal = self._equal_parts_of(count)
        parts = _equal_parts(low, high, equal) if equal else self._divided(low, high)
        out, below = [], storage.total_before(low)
        for end, as_list in parts:
            above = storage.total_before(end)
            upto = (timestamp, prefix) if end == high else storage.bound(end)
            out.append(encode_bound(*upto, last))
            last = upto[0]
            if as_list:
                out.append(_ID_LIST + encode_varint(end - low) + storage.ids(low, end))
            else:
                out.append(_FINGERPRINT + make_fingerprint(above - below, end - low))
            low, below = end, above
        return b"".join(out)

    def _divided(self, low: int, high: int) -> Sequence[tuple[int, bool]]:
        """The parts that the caller's split gives; those of ``even`` if they would never fit into a message.

        ``ValueError`` if they do not cover the range in ascending order.
        """
        size = len(self._storage)
        parts = self._divide(low, high, size)
        ends = [end for end, _ in parts]
        if not parts or ends[-1] != high or ends != sorted({end for end in ends if end > low}):
            raise ValueError(
                f"the split function divided {low} to {high} into {parts}, which does not cover it in ascending order"
            )
        if len(parts) == 1 and not parts[0][1]:
            raise ValueError(
                "the split function answered a range with a single fingerprint, so the session might never end"
            )
        listed = sum(end - begin for begin, (end, as_list) in zip([low, *ends], parts, strict=False) if as_list)
        bytes_needed = listed * ID_BYTES + len(parts) * _MOST_OF_A_RANGE
        return parts if self._cut_at is None or bytes_needed <= self._cut_at else even(low, high, size)
