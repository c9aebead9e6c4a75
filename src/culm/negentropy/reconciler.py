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

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence

from culm.errors import LocalProtocolError, RemoteProtocolError
from culm.negentropy.codec import ID_BYTES, INFINITY, VERSION, VERSIONS, Mode, Range, Writer, encode_varint, read_ranges
from culm.negentropy.storage import Storage, make_fingerprint

BUCKETS = 16  # as in the reference implementations; see above
# Bytes, as the references require. A frame must hold at least one split range; otherwise the session would never end.
LEAST_FRAME_LIMIT = 4096
_FRAME_RESERVE = 200  # Bytes kept free for the closing fingerprint, as many as the references keep.
# Ranges handled before the caller gets its turn, a few milliseconds of work. A range that is split counts as 16,
# because 16 fingerprints are computed for it.
_STEP_WORK = 512
_SPLIT_WORK = 16
_MOST_OF_A_RANGE = 64  # bytes: timestamp 10, prefix 33, mode and count or fingerprint; the ids of a list come on top
SKIP, FINGERPRINT, ID_LIST = map(int, Mode)
_SKIP, _FINGERPRINT, _ID_LIST = (bytes((mode,)) for mode in Mode)

Split = Callable[[int, int, int], Sequence[tuple[int, bool]]]
"""``split(low, high, size)`` divides the positions ``low`` to before ``high`` (32 and more) of a set of ``size``
records. It returns for each part its end, and whether it is sent as a list (else as a fingerprint). A single
fingerprint is not allowed, because the other side could answer it with the same, for ever."""


def even(low: int, high: int, size: int) -> list[tuple[int, bool]]:  # noqa: ARG001 - as every split
    """16 parts of equal size; the first ones have a record more if the division leaves a rest."""
    count, larger = divmod(high - low, BUCKETS)
    return [(low + count * part + min(part, larger), False) for part in range(1, BUCKETS + 1)]


def newest_listed(low: int, high: int, size: int) -> list[tuple[int, bool]]:
    """The newest 32 records of the set as a list, so that new records are found in the first round already."""
    if high < size or high - low < 4 * BUCKETS:
        return even(low, high, size)
    return [*even(low, high - 2 * BUCKETS, size), (high, True)]


class Negentropy:
    """One side of a session over a ``Storage`` that does not change meanwhile.

    ``frame_size_limit``: the most bytes of a message, 0 for no limit, else at least 4096. The side that calls
    ``initiate`` finds the differences in ``have`` (ids that it holds and the other lacks, in storage order within a
    message) and in ``need``, each id once, as soon as it is known. ``split`` divides ranges of 32 and more records;
    the references do it as ``even`` does. The two sides may use different ones.
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
        self._initiator = False
        self._known_have: set[bytes] = set()
        self._known_need: set[bytes] = set()

    def initiate(self) -> bytes:
        """The first message; this side is now the initiator. ``LocalProtocolError`` if it is called twice."""
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
        storage, writer = self._storage, Writer()
        out = bytearray((VERSION,))
        low = 0  # where the range begins
        written = 0  # the position of the last bound written: what follows on the wire begins there
        part = b""
        # The last range to skip. It is written only if another range follows, so that a row of skipped ranges costs one
        # Skip, and the last row nothing.
        skipped: Range | None = None
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
        """Answer a list with our own ids, as many as the frame limit allows; the position reached."""
        storage = self._storage
        timestamp, prefix = item.timestamp, item.prefix
        if self._cut_at is not None:
            # As the references do: an id is added as long as the message, with the ids so far, is within the limit.
            room = (self._cut_at - len(out)) // ID_BYTES + 1 if self._cut_at >= len(out) else 0
            if room < high - low:
                high = low + room
                timestamp, prefix = storage.timestamp(high), storage.id(high)
        out += part + writer.bound(timestamp, prefix) + _ID_LIST + encode_varint(high - low) + storage.ids(low, high)
        return high

    def _compare(self, theirs: bytes, low: int, high: int) -> None:
        """Compare the other side's list of a range with ours, and note what each side lacks."""
        ours = self._storage.ids(low, high)
        their_ids = [theirs[at : at + ID_BYTES] for at in range(0, len(theirs), ID_BYTES)]
        our_ids = [ours[at : at + ID_BYTES] for at in range(0, len(ours), ID_BYTES)]
        if our_ids == their_ids:
            return
        our_set, their_set = set(our_ids), set(their_ids)
        # One id can have two timestamps, and the other side may hold only one. A set would hide that difference.
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
        """Our own range: as a list below 32 records, because a list costs less than 16 fingerprints; else its parts."""
        storage = self._storage
        count = high - low
        if count < 2 * BUCKETS:
            return writer.bound(timestamp, prefix) + _ID_LIST + encode_varint(count) + storage.ids(low, high)
        parts = even(low, high, len(storage)) if self._divide is even else self._divided(low, high)
        out, below = [], storage.total_before(low)
        for end, as_list in parts:
            above = storage.total_before(end)
            out.append(writer.bound(timestamp, prefix) if end == high else writer.bound(*storage.bound(end)))
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
