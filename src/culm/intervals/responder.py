"""One request of the peer: what to send for it now.

``next_part`` gives the next piece of the response, if there is one: data, an announcement or confirmation, or the end.
The connection sends it and decides which request is next. What stops a response is asked again whenever its log has
changed. Until then a request without anything to send costs nothing (``culm.intervals.turns``).

Specification: docs/specs/intervals.md, "States", "Responses", "Lazy messages", "Stateless responders",
"Verified and unverified responses", "Sizes".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from culm.bamboo import MAX_U64, Entry, encode_varu64, lipmaa
from culm.bamboo.entry import HASH_AND_SIGNATURE_BYTES
from culm.intervals.branch import Available, Branch
from culm.intervals.exchanged import Exchanged
from culm.intervals.interval import Forks, has_absolute_end, start_of
from culm.intervals.items import PLAIN, encode_item
from culm.intervals.messages import Adjust, End, Lazy, Reason
from culm.intervals.planner import Horizon, resolve
from culm.intervals.progress import Course, Progress
from culm.intervals.proofs import Dispute, doubtful, next_dispute
from culm.intervals.stream import Position, Stream, expected_hashes, stream_of
from culm.ranges.runs import Runs
from culm.transfer import Held, HeldLog, Kept, Pages, Source
from culm.types import Buffer

_PIECE = 64 * 1024  # Stores keep large payloads in pieces of this size, so data that ends with one is cheapest to read.
_TAG = bytes((PLAIN.lead,))
# Bytes of one payload that are sent before the store is asked again what may be sent. It is asked at once when the log
# changes; this bound is for what nobody tells us, such as a log that is shared no longer.
_UNASKED_BYTES = 1024 * 1024
_LAZY_ITEMS = 100_000  # Items in one announcement if sizes have to be looked up, so that a turn stays short.
_LAZY_STEPS = 1024  # Runs in one announcement, for the same reason: each entry of a forked branch is a run of its own.


_ENDED = End(Reason.OTHER, grants=True)


class Data(NamedTuple):
    """Item data, and how many entries are complete with it."""

    data: Buffer
    entries: int


Part = Data | Lazy | End


class View(NamedTuple):
    """What may be sent at one moment: what is held, how far the interval goes, and the item before which to stop.

    At ``stop`` a fork proof can end the response, so nothing behind that is sent.
    """

    source: Source
    held: Held
    horizon: Horizon
    stop: int

    def reach(self, index: int) -> int:
        """How many items from ``index`` on may be sent, at least those of one run; 0 if the next one may not."""
        return max(0, min(self.horizon.reach(index, self.held), self.stop - index))


class TheirRequest(Progress):
    """A request of the peer and how far it was answered.

    ``doubted``: the number of an expected hash that we do not agree with, once a proof of that has ended the response.
    """

    def __init__(self, course: Course, exchanged: Exchanged, *, stateless: bool) -> None:
        super().__init__(course, exchanged)
        self.doubted: int | None = None
        self.stateless = stateless
        self._rest = b""  # the bytes of an entry's metadata that are left to send, after a part of them was sent
        self._transmitted = Runs()
        self._pages = Pages(self.request.log)
        self._entries = 0  # sent completely since the last part
        self._under_way: Kept | None = None  # whose payload goes on, whatever else the store holds
        self._unasked = 0  # bytes that were sent of it since the store was asked
        self._is_drained = False  # whether nothing can follow the last part until the log changes
        self._misfit: int | None = None  # the number of a payload that is not wanted for its size
        self._is_log_over = False  # whether the log's last entry was sent
        self._branch: Branch | None = None  # of a forked log, once the response has to choose one
        self._expected: dict[int, bytes] = {}
        self._doubtful: dict[int, bytes] = {}  # those of the expected hashes that were not found to be right
        if self.stream is not None:
            self._expect_hashes(self.stream)

    def _expect_hashes(self, stream: Stream) -> None:
        self._expected = self._doubtful = expected_hashes(self.request, stream)

    def successor(self, message: Adjust, source: Source) -> TheirRequest:
        """The request that takes over, from where this one is."""
        return TheirRequest(self.adjusted(message, source), self.exchanged, stateless=self.stateless)

    @property
    def is_in_large_payload(self) -> bool:
        """Whether a good part of a payload was sent already."""
        return self.offset >= _PIECE

    # -- what comes next ---------------------------------------------------------------------------------------

    def look_again(self) -> None:
        """The log has changed, so that something else may come next."""
        self._under_way = None

    def next_part(self, source: Source, room: int) -> Part | None:
        """The next part, of at most ``room`` bytes of data; None if there is nothing to send now.

        With no room, nothing is said about what data would be next.
        """
        kept, self._under_way = self._under_way, None
        if kept is None or self.lazy:
            return self._planned_part(source, room)
        if room <= 0:
            self._under_way = kept
            return None
        # Planning costs more than reading such a piece, and in the middle of a payload it would find nothing else.
        piece = self._payload(source, kept, room, may_wait=False)
        if not piece:
            return self._planned_part(source, room)
        self.note_switch()
        return Data(piece, 0)

    def _planned_part(self, source: Source, room: int) -> Part | None:
        self._unasked = 0
        held = source.held(self.request.log)
        is_branched = held.is_forked and self.request.forks is not Forks.DEFAULT
        available = Available(held) if is_branched else held
        if self.stream is None:
            start = resolve(start_of(self.request.interval), available)
            if start is None:
                dispute = self._dispute(source, held)
                return self._nothing(held) if dispute is None else self._ended_by(dispute)
            self.stream = stream_of(self.request, start)
            try:
                self._expect_hashes(self.stream)
            except ValueError:  # two of its hashes turn out to be of one number
                return _ENDED
        dispute = self._dispute(source, held)
        if dispute is not None and self.allows_proof(dispute.position):
            return self._ended_by(dispute)
        stop = self.stream.total if dispute is None else self.stream.first_at(dispute.position)
        sendable = self._along_branch(source, held) if is_branched else held
        view = View(source, sendable, Horizon.of(self.request, self.stream, available), stop)
        self._is_drained = False
        part: Part | None = None if self.stateless else self._confirmation(view)
        if part is None and self._cannot_begin(source):
            return _ENDED
        if part is None:
            part = self._announcement(view) if self.lazy else self._data(view, room)
        if part is None and (self.lazy or room > 0):
            return self._nothing(held)
        return part

    def _cannot_begin(self, source: Source) -> bool:
        """Whether the payload that the response begins with ends before the offset, or is that of another entry."""
        stream = self.stream
        if stream is None or (self.index, self.offset) != self.begin or self.index >= stream.total:
            return False
        seq, is_payload = stream.item(self.index)
        kept = self._kept(source, seq) if is_payload else None
        if kept is None:
            return False
        return self.offset > kept.entry.size or self._expected.get(seq, kept.entry.hash) != kept.entry.hash

    def pause(self) -> bool:
        """Pause, if nothing can follow what was just sent; False if the request has to get another turn all the same.

        That saves the turn in which the request would find that out.
        """
        if self.stateless or self.stream is None or self.request.has_filter or self.is_at_end:
            return False
        if not self._is_drained or self.index >= self.stream.total:
            return False
        self._pages.clear()
        return True

    def _nothing(self, held: HeldLog) -> Part | None:
        """What to do where nothing can be sent: wait, or end the response."""
        stream = self.stream
        self._pages.clear()
        if self.stateless or (stream is not None and self._is_stuck(held, stream)):
            return _ENDED
        if self.lazy and stream is not None and not self.has_progress:
            return Lazy(0, 0, None, self.start_to_tell)  # so that the requester knows that there is nothing
        return None

    def _is_stuck(self, held: HeldLog, stream: Stream) -> bool:
        """Whether no change of the log can ever bring the next item."""
        if self.index >= stream.total:
            return not has_absolute_end(self.request.interval)
        seq, is_payload = stream.item(self.index)
        if seq > MAX_U64 or (is_payload and seq == self._misfit):
            return True
        if self._branch is not None and self._branch.is_elsewhere(seq):
            return True
        end = held.end()
        return end is not None and seq > end.seq

    # -- forks -------------------------------------------------------------------------------------------------

    def _dispute(self, source: Source, held: HeldLog) -> Dispute | None:
        """The next proof that may end the response, now or farther on."""
        stream = self.stream
        if stream is None and self.request.forks is not Forks.DEFAULT:
            return None
        if not self._rest:
            self._doubtful = doubtful(self.request.log, self._doubtful, source, held)
        expected = {} if self._rest else self._doubtful
        if not (held.is_forked or expected):
            return None
        ascending = stream is None or stream.ascending
        return next_dispute(self.request, expected, source, held, ascending=ascending)

    def _ended_by(self, dispute: Dispute) -> End:
        self.doubted = dispute.doubted
        return dispute.end

    def _along_branch(self, source: Source, held: HeldLog) -> Held:
        """What is held of a forked log, for a response that goes along one of its branches."""
        fork = min((proof.position for proof in source.proofs(self.request.log)), default=MAX_U64)
        self._branch = self._branch or Branch(self.request)
        self._branch.look(source, held, fork, self._expected)
        return self._branch

    def _kept(self, source: Source, seq: int) -> Kept | None:
        """The entry to send of a number."""
        if self._branch is not None and (kept := self._branch.kept(seq)) is not None:
            return kept
        return self._pages.read(source, seq, ascending=self.stream is None or self.stream.ascending)

    def _kept_anew(self, source: Source, seq: int) -> Kept | None:
        """The same as the store has it at this moment."""
        kept = None if self._branch is None else self._branch.kept(seq)
        return kept or self._pages.read_anew(source, seq, limit=1)

    # -- confirmations and announcements -----------------------------------------------------------------------

    def _confirmation(self, view: View) -> Lazy | None:
        """Confirm items that came from the requester: stored, or announced by it."""
        stream, exchanged = view.horizon.stream, self.exchanged
        count = 0
        if exchanged.received:
            received = exchanged.received
            count = self._count(lambda at: min(view.horizon.reach(at, received), view.reach(at)))
            count = self._of_one_branch(view.source, stream, count)
        if not count and self.lazy and exchanged.heard_of:
            count = self._mirrored(view.horizon)
        count = self._up_to_switch(min(count, view.stop - self.index))
        if count <= 0:
            return None
        value = self._hash_before(view.source, stream, self.index + count)
        if value is None and self.has_hash(count):
            return None
        return self._move(count, 0, value)

    def _of_one_branch(self, source: Source, stream: Stream, count: int) -> int:
        """So many of the next items that the peer's last entry among them is ours. Links vouch for those below it."""
        seq = self._entry_before(stream, self.index + count)
        kept = None if seq is None else self._kept(source, seq)
        if seq is None or kept is None or self.exchanged.is_from_peer(seq, kept.entry.hash):
            return count
        return (stream.index_of(seq, is_payload=False) or 0) - self.index

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
        return max(0, min(self._count(lambda at: horizon.reach(at, exchanged.heard_of)), last + 1 - self.index))

    def _count(self, reach: Callable[[int], int]) -> int:
        """How many of the next items there are, run by run: each member of a pool is a run of its own."""
        end = self.index
        for _ in range(_LAZY_STEPS):
            if (self.switch is not None and end >= self.switch.at) or not (more := reach(end)):
                break
            end += more
        return end - self.index

    def _up_to_switch(self, count: int) -> int:
        return count if self.switch is None else min(count, self.switch.at - self.index)

    def _announcement(self, view: View) -> Lazy | None:
        source, stream = view.source, view.horizon.stream
        count = self._fitting(source, stream, self._up_to_switch(self._count(view.reach)))
        end = self.index + count
        trailing = 0 if end >= view.stop else self._trailing(source, stream, end)
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
        kept = self._kept_anew(source, seq)
        return 0 if kept is None or not self.request.fits(kept.entry.size) else kept.payload_held

    def _hash_before(self, source: Source, stream: Stream, index: int) -> bytes | None:
        """The hash of the last metadata of the response before an index; None if there is none, or it is not known."""
        seq = self._entry_before(stream, index)
        if seq is None:
            return None
        kept = self._kept(source, seq)
        if kept is not None:
            return kept.entry.hash
        heard = self.exchanged.heard_hash
        return heard[1] if heard is not None and heard[0] == seq else None

    def _entry_before(self, stream: Stream, index: int) -> int | None:
        """The number of the last metadata of the response before an index; None if there is none."""
        index -= 1
        if index >= self.begin.at and stream.item(index).is_payload:
            index -= 1
        return None if index < self.begin.at else stream.item(index).seq

    def _move(self, count: int, trailing: int, value: bytes | None) -> Lazy:
        stream = self.stream
        assert stream is not None  # noqa: S101 - it is resolved
        start = self.start_to_tell
        if count:
            self.exchanged.announced.add_span(stream, self.index, count)
            self.index, self.offset = self.index + count, 0
            self._rest = b""
        if trailing:
            self.offset = (self.begin.offset if self.index == self.begin.at else 0) + trailing
        self.note_switch()
        return Lazy(count, trailing, value, start)

    # -- data --------------------------------------------------------------------------------------------------

    def _data(self, view: View, room: int) -> Data | End | None:
        """As much data as there is room for. The next byte passes a payload that has no bytes left."""
        source, stream = view.source, view.horizon.stream
        pieces: list[Buffer] = []
        behind = Position(self.index, self.offset)  # where all the data so far has come to
        available = 0
        while room > 0 and self.index < stream.total and not self.lazy:
            if available <= 0:
                available = self._available(view)
            if available <= 0 or (pieces and self._is_confirmable(stream)):
                # Behind the last entry of the log comes nothing more, and the response ends in its next turn.
                self._is_drained = available <= 0 and not (self._branch or self._doubtful or self._is_log_over)
                break
            before = self.index
            piece: Buffer | End = self._run(source, stream, room, available)
            if not piece:
                piece = self._next_piece(source, stream, room, may_wait=bool(pieces))
            if isinstance(piece, End):
                if pieces:
                    break
                return piece
            available -= self.index - before
            if piece:
                pieces.append(piece)
                room -= len(piece)
                behind = Position(self.index, self.offset)
            elif self.index == before:
                break
            self.note_switch()
        if not (self.is_at_end or self.lazy):
            self.index, self.offset = behind
        entries, self._entries = self._entries, 0
        return Data(_joined(pieces), entries) if pieces or self.index > behind.at else None

    def _is_confirmable(self, stream: Stream) -> bool:
        if not self.exchanged.received:
            return False
        seq, is_payload = stream.item(self.index)
        return not (self.stateless or self._rest or self.offset) and self.exchanged.received.has(
            seq, is_payload=is_payload
        )

    def _available(self, view: View) -> int:
        count = view.reach(self.index)
        if not count and not self.request.verified and view.horizon.admits(self.index) and self.index < view.stop:
            seq, is_payload = view.horizon.stream.item(self.index)  # of a payload in part its beginning
            if is_payload and view.held.entries_around(seq) is not None:
                kept = self._kept_anew(view.source, seq)
                return 1 if kept is not None and kept.payload_held > self.offset else 0
        return count

    def _next_piece(self, source: Source, stream: Stream, room: int, *, may_wait: bool) -> Buffer | End:
        """At most ``room`` bytes of the next item; none if the store has it no longer, or if they had better wait."""
        seq, is_payload = stream.item(self.index)
        kept = self._kept(source, seq)
        if kept is None:
            return b""
        if not is_payload:
            return self._metadata(kept, stream, room)
        if not self.request.fits(kept.entry.size):
            self._misfit = seq
            return _ENDED
        return self._payload(source, kept, room, may_wait=may_wait)

    def _run(self, source: Source, stream: Stream, room: int, available: int) -> bytes:
        """Entries with whole payloads, at most ``room`` bytes and ``available`` items of them.

        ``_next_piece`` would give the same one by one, at three times the cost, because it decides about each item
        anew. Where something has to be decided there are no entries.
        """
        at = self.index
        if not self._is_plain(stream):
            return b""
        first = seq = stream.item(at).seq
        available = min(available, stream.range_indexes.stop - at)
        parts: list[bytes] = []
        while available >= 2:
            kept = self._kept(source, seq)
            if kept is None or kept.small is None or kept.entry.is_end or self._is_unexpected(kept.entry):
                break
            entry, size = kept.entry, encode_varu64(kept.entry.size)
            skip = back = b""
            if entry.lipmaalink is not None and (target := lipmaa(seq)) < first and not self._omits(target):
                skip = entry.lipmaalink
            if entry.backlink is not None and seq == first and not self._omits(seq - 1):
                back = entry.backlink
            # From the size on the bytes of an entry are those of its item.
            rest = entry.encoded[-len(size) - HASH_AND_SIGNATURE_BYTES :]
            room -= 1 + len(skip) + len(back) + len(rest) + len(kept.small)
            if room < 0:
                break
            parts += (_TAG, skip, back, rest, kept.small)
            available, seq = available - 2, seq + 1
            self._pages.drop(seq - 1)
        if parts:
            self.exchanged.sent.add_span(stream, at, 2 * (seq - first))
            self._transmitted.add(first, seq - 1)
            self._entries += seq - first
            self.index, self._under_way = at + 2 * (seq - first), None
        return b"".join(parts)

    def _is_plain(self, stream: Stream) -> bool:
        """Whether metadata of the range comes next, all of that with payloads, and nothing has to be compared."""
        return (
            stream.ascending
            and stream.in_range(self.index)
            and not (self._rest or self.offset or self.switch or self._branch)
            and not (self.exchanged.received or self.request.has_filter)
            and not stream.item(self.index).is_payload
        )

    def _metadata(self, kept: Kept, stream: Stream, room: int) -> bytes | End:
        entry = kept.entry
        if not self._rest:
            if self._is_unexpected(entry):
                return _ENDED
            self._rest = encode_item(entry, self._omits)
        piece, self._rest = self._rest[:room], self._rest[room:]
        if not self._rest:
            self._transmitted.add(entry.seq, entry.seq)
            self.exchanged.sent.add(entry.seq, is_payload=False)
            self._entries += 1
            self.index += 1
            if entry.size == 0 and kept.complete and self._is_payload_of(entry, stream):
                self._pass_payload(entry)
        return piece

    def _is_unexpected(self, entry: Entry) -> bool:
        """Whether an entry contradicts a hash that the request names."""
        expected = self._expected
        return bool(expected) and any(
            expected.get(at, value) != value for at, value in (*entry.links, (entry.seq, entry.hash))
        )

    def _omits(self, seq: int) -> bool:
        """Whether the peer knows the hash of an entry: it was sent, or the request names it."""
        return seq in self._transmitted or seq in self._expected

    def _is_payload_of(self, entry: Entry, stream: Stream) -> bool:
        """Whether the empty payload of an entry comes next, and is wanted: it goes with the entry's last byte."""
        is_next = stream.in_range(self.index) and stream.item(self.index) == (entry.seq, True)
        stops = self.switch is not None and self.switch == (self.index, 0)
        return is_next and not stops and self.request.fits(0)

    def _payload(self, source: Source, kept: Kept, room: int, *, may_wait: bool) -> Buffer:
        end = kept.entry.size
        if self.switch is not None and self.switch.at == self.index:
            end = min(end, self.switch.offset)
        wanted = min(end - self.offset, room)
        if wanted < end - self.offset:  # it had better end where stores begin a new piece
            whole = wanted - (self.offset + wanted) % _PIECE
            if whole <= 0 and may_wait:
                return b""
            wanted = whole if whole > 0 else wanted
        if kept.small is not None:
            piece: Buffer = kept.small[self.offset : self.offset + wanted]
        else:
            piece = source.payload(kept, self.offset, wanted) if wanted else b""
        self.offset += len(piece)
        self._unasked += len(piece)
        goes_on = kept.complete and piece and self.offset < end and self._unasked < _UNASKED_BYTES
        self._under_way = kept if goes_on else None
        if self.offset == kept.entry.size:
            self._pass_payload(kept.entry)
        return piece

    def _pass_payload(self, entry: Entry) -> None:
        self.exchanged.sent.add(entry.seq, is_payload=True)
        self.index, self.offset = self.index + 1, 0
        if entry.is_end and self.stream is not None and self.stream.ascending:
            self._is_log_over = True
        self._pages.drop(entry.seq)


def _joined(pieces: list[Buffer]) -> Buffer:
    """Pieces as one. A single one, which most of a large payload comes in, is not copied."""
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
