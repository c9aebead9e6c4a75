"""One request of the peer: what to send for it now.

``next_part`` gives the next piece of the response, if there is one: data, an announcement or confirmation, or the end.
The connection makes messages of it and decides whose turn it is. What stops a response is asked again whenever its log
has changed, so that a paused request costs nothing until then.

Specification: docs/specs/intervals.md, "Responses", "Lazy messages", "Stateless responders",
"Verified and unverified responses", "Sizes".
"""

from dataclasses import dataclass
from typing import NamedTuple

from culm.bamboo import MAX_U64, Entry, ForkProof
from culm.intervals.exchanged import Exchanged
from culm.intervals.interval import Forks, Request, has_absolute_end, start_of
from culm.intervals.items import encode_item
from culm.intervals.messages import ProofEntry, Reason
from culm.intervals.planner import Horizon, resolve
from culm.intervals.progress import Progress
from culm.intervals.proofs import doubtful, full_proof, is_due, partial_proof
from culm.intervals.states import THEIRS, TheirEvent, Theirs
from culm.intervals.stream import Position, Stream, expected_hashes, resolved_start, stream_of
from culm.ranges.runs import Runs
from culm.transfer import HeldLog, Kept, Pages, Source

_PIECE = 64 * 1024  # Stores keep large payloads in pieces of this size, so data that ends with one is cheapest to read.
_LAZY_ITEMS = 100_000  # Items that one announcement passes if sizes have to be looked up, so that a turn stays short.


class Data(NamedTuple):
    """Item data, and how many entries are complete with it."""

    data: bytes
    entries: int


class Announcement(NamedTuple):
    """Items without data: a lazy response, or a confirmation."""

    items: int
    trailing: int
    hash: bytes | None


@dataclass(frozen=True, slots=True)
class Over:
    """The response ends here. ``doubted``: the number of an expected hash that we do not agree with."""

    reason: Reason
    proof: tuple[ProofEntry, ...] = ()
    doubted: int | None = None


Part = Data | Announcement | Over


class _Chunk:
    """Pieces of data that go out together. Its length is that of the data."""

    __slots__ = ("_parts", "_size")

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, piece: bytes) -> None:
        """Add a piece."""
        self._parts.append(piece)
        self._size += len(piece)

    def joined(self) -> bytes:
        """All of it; a single piece is not copied."""
        return b"".join(self._parts)


class TheirRequest(Progress):
    """A request of the peer and how far it was answered."""

    def __init__(
        self,
        request: Request,
        exchanged: Exchanged,
        *,
        stateless: bool,
        stream: Stream | None = None,
        begin: Position | None = None,
        switch: Position | None = None,
    ) -> None:
        super().__init__(request, exchanged, stream=stream, begin=begin, switch=switch)
        self.state = Theirs.UNRESOLVED
        self.stateless = stateless
        self._item: bytes | None = None  # metadata of which a part was sent
        self._item_at = 0
        self._transmitted = Runs()
        self._pages = Pages(request.log)
        self._entries = 0  # sent completely since the last part
        self._is_drained = False  # whether nothing can follow the last part until the log changes
        self._misfit: int | None = None  # the number of a payload that is not wanted for its size
        self._has_ended = False  # whether the log's last entry was sent
        self._expected: dict[int, bytes] = {}
        self._doubtful: dict[int, bytes] = {}  # those of the expected hashes that were not found to be right
        if stream is not None:
            self._set_stream(stream)
        elif not self.starts:
            self._set_stream(stream_of(request, resolved_start(request) or 0))

    def _set_stream(self, stream: Stream) -> None:
        self.stream = stream
        self._expected = self._doubtful = expected_hashes(self.request, stream)
        self.advance(TheirEvent.RESOLVED)

    def advance(self, event: TheirEvent) -> None:
        """Go to the next state."""
        following = THEIRS[self.state][event]
        if following is not None:
            self.state = following

    @property
    def is_in_large_payload(self) -> bool:
        """Whether a good part of a payload was sent already."""
        return self.offset >= _PIECE

    # -- what comes next ---------------------------------------------------------------------------------------

    def next_part(self, source: Source, room: int) -> Part | None:
        """The next part, of at most ``room`` bytes of data; None if there is nothing to send now.

        With no room, nothing is said about what data would be next.
        """
        held = source.held(self.request.log)
        if self.state is Theirs.UNRESOLVED:
            start = resolve(start_of(self.request.interval), held)
            if start is None:
                return self._unresolved_fork(source, held) or self._nothing()
            try:
                self._set_stream(stream_of(self.request, start))
            except ValueError:  # two of its hashes turn out to be of one number
                return Over(Reason.OTHER)
        stream = self.stream
        assert stream is not None  # noqa: S101 - set right above
        if (over := self._fork(source, held, stream)) is not None:
            return over
        horizon = Horizon.of(self.request, stream, held)
        self._is_drained = False
        part: Part | None = None if self.stateless else self._confirmation(source, horizon, held)
        if part is None:
            part = self._announcement(source, horizon, held) if self.lazy else self._data(source, horizon, held, room)
        if part is None and (self.lazy or room > 0):
            return self._nothing()
        return part

    def pause(self) -> bool:
        """Pause, if nothing can follow what was just sent; False if the request has to get another turn all the same.

        That saves the turn in which the request would find that out.
        """
        if self.stateless or self.stream is None or self.request.has_filter or self._has_ended or self.is_at_end:
            return False
        if not self._is_drained or self.index >= self.stream.total:
            return False
        self._pages.clear()
        self.advance(TheirEvent.BLOCKED)
        return True

    def _nothing(self) -> Part | None:
        """What to do where nothing can be sent: wait, or end the response."""
        stream = self.stream
        self._pages.clear()
        self.advance(TheirEvent.BLOCKED)
        if self.stateless:
            return Over(Reason.OTHER)
        if self.lazy and stream is not None and not self.has_progress:
            return Announcement(0, 0, None)  # so that the requester knows that there is nothing
        if stream is not None and self._is_stuck(stream):
            return Over(Reason.OTHER)
        return None

    def _is_stuck(self, stream: Stream) -> bool:
        """Whether no change of the log can ever bring the next item."""
        if self.index >= stream.total:
            return not has_absolute_end(self.request.interval)
        seq, is_payload = stream.item(self.index)
        return seq > MAX_U64 or (is_payload and seq == self._misfit) or self._has_ended

    # -- forks -------------------------------------------------------------------------------------------------

    def _unresolved_fork(self, source: Source, held: HeldLog) -> Over | None:
        """The proof of a log that is forked from the beginning, so that nothing of it can be held."""
        if not held.is_forked or self.request.forks is not Forks.DEFAULT:
            return None
        proof = full_proof(self.request, source, ascending=True, next_seq=None)
        return None if proof is None else _over(proof)

    def _fork(self, source: Source, held: HeldLog, stream: Stream) -> Over | None:
        if not (held.is_forked or self._doubtful):
            return None
        next_seq = stream.item(self.index).seq if self.index < stream.total else None
        if self.lazy and not self.has_progress:
            next_seq = stream.start
        if held.is_forked:
            proof = full_proof(self.request, source, ascending=stream.ascending, next_seq=next_seq)
            if proof is not None:
                return _over(proof)
        if self._doubtful and self._item is None:
            self._doubtful = doubtful(self.request.log, self._doubtful, source)
            found = partial_proof(self.request.log, self._doubtful, source)
            if found is not None:
                entry, position, doubted = found
                anchor = self.request.anchor
                if is_due(self.request, ascending=stream.ascending, next_seq=next_seq, position=position) and (
                    anchor is None or stream.ascending or position < anchor[0]
                ):
                    return Over(Reason.PARTIAL_PROOF, (ProofEntry.of(entry),), doubted)
        return None

    # -- confirmations and announcements -----------------------------------------------------------------------

    def _confirmation(self, source: Source, horizon: Horizon, held: HeldLog) -> Announcement | None:
        """Confirm items that came from the requester: stored, or announced by it."""
        stream, exchanged = horizon.stream, self.exchanged
        count = 0
        if exchanged.received:
            count = min(horizon.reach(self.index, exchanged.received), horizon.reach(self.index, held))
        if not count and self.lazy and exchanged.heard_of:
            count = self._mirrored(horizon)
        count = self._up_to_switch(count)
        if not count:
            return None
        value = self._hash_before(source, stream, self.index + count)
        if value is None and self.has_hash(count):
            return None
        return self._move(count, 0, value)

    def _mirrored(self, horizon: Horizon) -> int:
        """Items that the requester announced, up to the last one whose hash is known."""
        stream, exchanged = horizon.stream, self.exchanged
        if exchanged.heard_hash is None:
            return 0
        seq = exchanged.heard_hash[0]
        last = stream.index_of(seq, is_payload=False)
        if last is None:
            return 0
        if exchanged.heard_of.has(seq, is_payload=True) and stream.in_range(last):
            last += 1
        return max(0, min(horizon.reach(self.index, exchanged.heard_of), last + 1 - self.index))

    def _up_to_switch(self, count: int) -> int:
        return count if self.switch is None else min(count, self.switch.at - self.index)

    def _announcement(self, source: Source, horizon: Horizon, held: HeldLog) -> Announcement | None:
        stream, end = horizon.stream, self.index
        while (self.switch is None or end < self.switch.at) and (more := horizon.reach(end, held)):
            end += more
        count = self._fitting(source, stream, self._up_to_switch(end - self.index))
        end = self.index + count
        trailing = self._trailing(source, stream, end)
        if count == 0 and trailing <= self.offset - (self.begin.offset if end == self.begin.at else 0):
            return None
        return self._move(count, trailing, self._hash_before(source, stream, end))

    def _fitting(self, source: Source, stream: Stream, count: int) -> int:
        """How many of the next items there are before a payload of a size that is not wanted."""
        if not (self.request.has_filter and count):
            return count
        count = min(count, _LAZY_ITEMS)
        in_range = stream.range_indexes
        first, last = max(self.index, in_range.start), min(self.index + count, in_range.stop) - 1
        if first > last:
            return count
        ends = stream.item(first).seq, stream.item(last).seq
        misfit = source.misfit(
            self.request.log,
            min(ends),
            max(ends),
            self.request.least_size,
            self.request.greatest_size,
            ascending=stream.ascending,
        )
        if misfit is None:
            return count
        self._misfit = misfit
        index = stream.index_of(misfit, is_payload=True)
        return count if index is None else max(0, min(count, index - self.index))

    def _trailing(self, source: Source, stream: Stream, index: int) -> int:
        """Bytes there are of the payload at an index, from where the response enters it."""
        if index >= stream.total or not stream.item(index).is_payload:
            return 0
        entered = self.begin.offset if index == self.begin.at else 0
        seq = stream.item(index).seq
        if self.switch is not None and self.switch.at == index:
            return max(0, self.switch.offset - entered) if self._held_of(source, seq) >= self.switch.offset else 0
        if self.request.verified:
            return 0
        return max(0, self._held_of(source, seq) - entered)

    def _held_of(self, source: Source, seq: int) -> int:
        kept = self._kept(source, seq, ascending=True, fresh=True)
        return 0 if kept is None or not self.request.fits(kept.entry.size) else kept.payload_held

    def _hash_before(self, source: Source, stream: Stream, index: int) -> bytes | None:
        """The hash of the last metadata of the response before an index; None if there is none, or it is not known."""
        index -= 1
        if index >= self.begin.at and stream.item(index).is_payload:
            index -= 1
        if index < self.begin.at:
            return None
        seq = stream.item(index).seq
        kept = self._kept(source, seq, ascending=stream.ascending)
        if kept is not None:
            return kept.entry.hash
        heard = self.exchanged.heard_hash
        return heard[1] if heard is not None and heard[0] == seq else None

    def _move(self, count: int, trailing: int, value: bytes | None) -> Announcement:
        stream = self.stream
        assert stream is not None  # noqa: S101 - it is resolved
        if count:
            self.exchanged.announced.add_span(stream, self.index, count)
            self.index, self.offset = self.index + count, 0
            self._item, self._item_at = None, 0
        if trailing:
            self.offset = (self.begin.offset if self.index == self.begin.at else 0) + trailing
        self.note_switch()
        return Announcement(count, trailing, value)

    # -- data --------------------------------------------------------------------------------------------------

    def _data(self, source: Source, horizon: Horizon, held: HeldLog, room: int) -> Data | Over | None:
        """As much data as there is room for. The next byte passes a payload that has no bytes left."""
        stream, chunk = horizon.stream, _Chunk()
        behind = Position(self.index, self.offset)  # where all the data so far has come to
        available = 0
        while room > len(chunk) and self.index < stream.total and not self.lazy:
            if available <= 0:
                available = self._available(source, horizon, held)
            if available <= 0 or (chunk and self._is_confirmable(stream)):
                self._is_drained = available <= 0 and not (held.is_forked or self._doubtful)  # a proof may follow
                break
            before, size = self.index, len(chunk)
            over = self._add_some(source, stream, chunk, room - len(chunk))
            if over is not None:
                if chunk:
                    break
                return over
            available -= self.index - before
            if len(chunk) > size:
                behind = Position(self.index, self.offset)
            elif self.index == before:
                break
            self.note_switch()
        if not (self.is_at_end or self.lazy):
            self.index, self.offset = behind
        entries, self._entries = self._entries, 0
        return Data(chunk.joined(), entries) if chunk or self.index > behind.at else None

    def _is_confirmable(self, stream: Stream) -> bool:
        if not self.exchanged.received:
            return False
        seq, is_payload = stream.item(self.index)
        return not (self.stateless or self._item_at or self.offset) and self.exchanged.received.has(
            seq, is_payload=is_payload
        )

    def _available(self, source: Source, horizon: Horizon, held: HeldLog) -> int:
        count = horizon.reach(self.index, held)
        if not count and not self.request.verified and horizon.admits(self.index):
            seq, is_payload = horizon.stream.item(self.index)  # of a payload in part its beginning
            if is_payload and held.entries_around(seq) is not None:
                kept = self._kept(source, seq, ascending=True, fresh=True)
                return 1 if kept is not None and kept.payload_held > self.offset else 0
        return count

    def _add_some(self, source: Source, stream: Stream, chunk: _Chunk, room: int) -> Over | None:
        seq, is_payload = stream.item(self.index)
        kept = self._kept(source, seq, ascending=stream.ascending)
        if kept is None:
            return None
        if not is_payload:
            return self._add_metadata(kept, chunk, room)
        entry = kept.entry
        if not self.request.fits(entry.size):
            self._misfit = seq
            return Over(Reason.OTHER)
        if self.offset > entry.size:
            return Over(Reason.OTHER)
        self._add_payload(source, kept, chunk, room)
        return None

    def _add_metadata(self, kept: Kept, chunk: _Chunk, room: int) -> Over | None:
        entry, expected = kept.entry, self._expected
        if self._item is None:
            if expected and any(
                expected.get(at, value) != value for at, value in (*entry.links, (entry.seq, entry.hash))
            ):
                return Over(Reason.OTHER)
            transmitted = self._transmitted
            self._item = encode_item(entry, lambda seq: seq in transmitted or seq in expected)
            self._item_at = 0
        piece = self._item[self._item_at : self._item_at + room]
        chunk.add(piece)
        self._item_at += len(piece)
        if self._item_at == len(self._item):
            self._item, self._item_at = None, 0
            self._transmitted.add(entry.seq, entry.seq)
            self.exchanged.sent.add(entry.seq, is_payload=False)
            self._entries += 1
            self.index += 1
            stream = self.stream
            if stream is not None and entry.size == 0 and kept.complete and self._is_payload_of(entry, stream):
                self._pass_payload(entry)
        return None

    def _is_payload_of(self, entry: Entry, stream: Stream) -> bool:
        """Whether the empty payload of an entry comes next, and is wanted: it goes with the entry's last byte."""
        is_next = stream.in_range(self.index) and stream.item(self.index) == (entry.seq, True)
        stops = self.switch is not None and self.switch == (self.index, 0)
        return is_next and not stops and self.request.fits(0)

    def _add_payload(self, source: Source, kept: Kept, chunk: _Chunk, room: int) -> None:
        end = kept.entry.size
        if self.switch is not None and self.switch.at == self.index:
            end = min(end, self.switch.offset)
        wanted = min(end - self.offset, room)
        if wanted < end - self.offset:  # it had better end where stores begin a new piece
            whole = wanted - (self.offset + wanted) % _PIECE
            if whole <= 0 and chunk:
                return
            wanted = whole if whole > 0 else wanted
        if kept.small is not None:
            piece = kept.small[self.offset : self.offset + wanted]
        else:
            piece = source.payload(kept, self.offset, wanted) if wanted else b""
        chunk.add(piece)
        self.offset += len(piece)
        if self.offset == kept.entry.size:
            self._pass_payload(kept.entry)

    def _pass_payload(self, entry: Entry) -> None:
        self.exchanged.sent.add(entry.seq, is_payload=True)
        self.index, self.offset = self.index + 1, 0
        if entry.is_end and self.stream is not None and self.stream.ascending:
            self._has_ended = True
        self._pages.drop(entry.seq)

    def _kept(self, source: Source, seq: int, *, ascending: bool, fresh: bool = False) -> Kept | None:
        """An entry from the store, read with those behind it; ``fresh``: as it is now, alone."""
        if fresh:
            return self._pages.read_anew(source, seq, ascending=ascending, limit=1)
        return self._pages.read(source, seq, ascending=ascending)


def _over(proof: ForkProof) -> Over:
    return Over(Reason.FULL_PROOF, (ProofEntry.of(proof.first), ProofEntry.of(proof.second)))
