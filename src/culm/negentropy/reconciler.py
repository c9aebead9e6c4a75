"""Reconciling two sets by messages that take turns.

The initiator learns what it has and the other side needs, and the reverse. Each side answers every range of a message:
equal fingerprints with a Skip, others by splitting its own range; an IdList, if it is the responder, with its own.

With a frame limit a message may be cut; a fingerprint of everything from there on then closes it. All references take
that fingerprint from the end of the range they could not fit, while on the wire it begins at the last bound that was
written. What lies between is compared with nothing, and differences in it are lost. Here the fingerprint begins where
the wire says, so that nothing is lost; ``reference_bytes=True`` makes the references' messages instead.

Specification: docs/specs/negentropy.md, "Reconciliation", "Splitting", "Frame limits".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING

from culm.errors import LocalProtocolError, RemoteProtocolError
from culm.negentropy.codec import ID_BYTES, INFINITY, VERSION, VERSIONS, Mode, Writer, encode_varint, read_ranges

if TYPE_CHECKING:
    from collections.abc import Iterable

    from culm.negentropy.codec import Range
    from culm.negentropy.storage import Storage

BUCKETS = 16
LEAST_FRAME_LIMIT = 4096
_FRAME_RESERVE = 200  # bytes below the limit at which a message is cut: room for the closing fingerprint
_STEP_WORK = 512  # ranges that are looked at in a step, one that is answered counting for several
_SPLIT_WORK = 16
_MOST_OF_A_RANGE = 64  # bytes that a range takes at most, ids of a list aside
SKIP, FINGERPRINT, ID_LIST = map(int, Mode)
_SKIP, _FINGERPRINT, _ID_LIST = (bytes((mode,)) for mode in Mode)

Split = Callable[[int, int, int], Sequence[tuple[int, bool]]]
"""Divides a range, from a position to before another, of a set of some size (32 records and more): where each part
ends, and whether it is sent as a list (else as a fingerprint). A single fingerprint is no answer."""


def even(low: int, high: int, size: int) -> list[tuple[int, bool]]:  # noqa: ARG001 - as every split
    """16 parts, the first of them one record larger if it does not come out even."""
    count, larger = divmod(high - low, BUCKETS)
    return [(low + count * part + min(part, larger), False) for part in range(1, BUCKETS + 1)]


def newest_listed(low: int, high: int, size: int) -> list[tuple[int, bool]]:
    """The last 32 records of the set as a list, so that what has just been added is found in the first round."""
    if high < size or high - low < 4 * BUCKETS:
        return even(low, high, size)
    return [*even(low, high - 2 * BUCKETS, size), (high, True)]


class Negentropy:
    """One side of a session over a ``Storage`` that does not change meanwhile.

    ``frame_size_limit``: the most bytes of a message, 0 for any, else at least 4096. The side that calls ``initiate``
    finds the differences in ``have`` (ids it holds and the other lacks, in storage order within a message) and
    ``need``, as they come to light, each once. ``split`` says how ranges of 32 and more records are divided, ``even``
    (None) as the references do; the two sides need not do it alike.
    """

    def __init__(
        self,
        storage: Storage,
        frame_size_limit: int = 0,
        *,
        reference_bytes: bool = False,
        split: Split | None = None,
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
        self._initiator = False
        self._known_have: set[bytes] = set()
        self._known_need: set[bytes] = set()

    def initiate(self) -> bytes:
        """The first message. Whoever sends it is the initiator. ``LocalProtocolError`` if it was called before."""
        if self._initiator:
            raise LocalProtocolError("this session has been initiated already")
        self._initiator = True
        return bytes((VERSION,)) + self._split(Writer(), 0, len(self._storage), INFINITY, b"")

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
        """The same a few milliseconds at a time, for callers who have other work: the answer is what it returns."""
        if not message or message[0] not in VERSIONS:
            raise RemoteProtocolError("the peer sent something that is not a negentropy message")
        if message[0] != VERSION:
            if self._initiator:
                raise RemoteProtocolError(f"the peer speaks another version of negentropy (byte {message[0]:#04x})")
            return bytes((VERSION,))
        answer = yield from self._answer(message)
        return None if self._initiator and len(answer) == 1 else answer

    def _answer(self, message: bytes) -> Generator[None, None, bytes]:
        storage, writer = self._storage, Writer()
        out = bytearray((VERSION,))
        low = 0  # where the range begins
        written = 0  # the position of the last bound written: what follows on the wire begins there
        part = b""
        skipped: Range | None = None  # the last range to be skipped; written when something follows it
        before: Range | None = None
        work = 0
        for item in read_ranges(message):
            work += _SPLIT_WORK if part else 1
            if work > _STEP_WORK:
                work = 0
                yield
            high = storage.position(item.timestamp, item.prefix, low)
            part = b""
            if item.mode == SKIP or (item.mode == FINGERPRINT and item.payload == storage.fingerprint(low, high)):
                skipped = item
            elif item.mode == ID_LIST and self._initiator:
                self._compare(item.payload, low, high)
                skipped = item
            else:
                if skipped is not None and before is not None:
                    part = writer.bound(before.timestamp, before.prefix) + _SKIP
                    skipped = None
                if item.mode == FINGERPRINT:
                    part += self._split(writer, low, high, item.timestamp, item.prefix)
                else:
                    high = self._list(out, part, writer, low, high, item)
                    written, part = high, b""
            if self._cut_at is not None and len(out) + len(part) > self._cut_at:
                rest = high if self._reference_bytes else written
                out += writer.bound(INFINITY, b"") + _FINGERPRINT + storage.fingerprint(rest, len(storage))
                break
            if part:
                out += part
                written = high
            low, before = high, item
        return bytes(out)

    def _list(self, out: bytearray, part: bytes, writer: Writer, low: int, high: int, item: Range) -> int:
        """Answer a list with our own, as far as the frame limit lets it; the position reached."""
        storage = self._storage
        timestamp, prefix = item.timestamp, item.prefix
        if self._cut_at is not None:
            # An id is added while what is there, ids included, is within the limit.
            room = (self._cut_at - len(out)) // ID_BYTES + 1 if self._cut_at >= len(out) else 0
            if room < high - low:
                high = low + room
                timestamp, prefix = storage.timestamp(high), storage.id(high)
        out += part + writer.bound(timestamp, prefix) + _ID_LIST + encode_varint(high - low) + storage.ids(low, high)
        return high

    def _compare(self, theirs: bytes, low: int, high: int) -> None:
        """The initiator sees the other side's list of a range: note what either lacks."""
        ours = self._storage.ids(low, high)
        their_ids = [theirs[at : at + ID_BYTES] for at in range(0, len(theirs), ID_BYTES)]
        our_ids = [ours[at : at + ID_BYTES] for at in range(0, len(ours), ID_BYTES)]
        if our_ids == their_ids:
            return
        our_set, their_set = set(our_ids), set(their_ids)
        # One id may stand under two timestamps, and the other side may hold it under one of them only.
        alone = our_set - their_set
        if len(our_set) < len(our_ids):
            alone |= (Counter(our_ids) - Counter(their_ids)).keys()
        self._note(self.have, self._known_have, (identity for identity in our_ids if identity in alone))
        self._note(self.need, self._known_need, (identity for identity in their_ids if identity not in our_set))

    @staticmethod
    def _note(found: list[bytes], known: set[bytes], identities: Iterable[bytes]) -> None:
        for identity in identities:
            if identity not in known:
                known.add(identity)
                found.append(identity)

    def _split(self, writer: Writer, low: int, high: int, timestamp: int, prefix: bytes) -> bytes:
        """Our own range, as a list if it is small, else as fingerprints of its parts."""
        storage = self._storage
        count = high - low
        if count < 2 * BUCKETS:
            return writer.bound(timestamp, prefix) + _ID_LIST + encode_varint(count) + storage.ids(low, high)
        if self._divide is not None:
            parts = self._divided(self._divide, low, high)
            if parts is not None:
                return self._write_parts(writer, low, parts, timestamp, prefix)
        size, larger = divmod(count, BUCKETS)
        ends = [low + size * bucket + min(bucket, larger) for bucket in range(BUCKETS + 1)]  # as ``even``
        pieces = []
        for end, fingerprint in zip(ends[1:], storage.fingerprints(ends), strict=True):
            pieces.append(writer.bound(timestamp, prefix) if end == high else writer.bound(*storage.bound(end)))
            pieces.append(_FINGERPRINT)
            pieces.append(fingerprint)
        return b"".join(pieces)

    def _divided(self, divide: Split, low: int, high: int) -> Sequence[tuple[int, bool]] | None:
        """The parts of a range as the caller wants them; None if they would never fit into a message."""
        parts = divide(low, high, len(self._storage))
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
        size = listed * ID_BYTES + len(parts) * _MOST_OF_A_RANGE
        return parts if self._cut_at is None or size <= self._cut_at else None

    def _write_parts(
        self, writer: Writer, low: int, parts: Sequence[tuple[int, bool]], timestamp: int, prefix: bytes
    ) -> bytes:
        storage, out = self._storage, b""
        for number, (end, as_list) in enumerate(parts, 1):
            out += writer.bound(timestamp, prefix) if number == len(parts) else writer.bound(*storage.bound(end))
            if as_list:
                out += _ID_LIST + encode_varint(end - low) + storage.ids(low, end)
            else:
                out += _FINGERPRINT + storage.fingerprint(low, end)
            low = end
        return out
