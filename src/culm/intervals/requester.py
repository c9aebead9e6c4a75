"""One request of ours: where its response is, and how its bytes become entries.

The bytes of a response carry no sequence numbers, and not those links whose targets the receiver has: everything left
out follows from the request, the number of the items so far, and the hashes of items sent before. Of those only so many
are kept as later entries can link to: a few dozen, however long the response is.

Specification: docs/specs/intervals.md, "States", "Eager messages", "One branch in a response".
"""

from __future__ import annotations

from culm.bamboo import Entry, PayloadHasher
from culm.bamboo.linked import entries_linked, links_before
from culm.errors import EncodingError, LocalProtocolError, RemoteProtocolError, Truncated
from culm.intervals.agreement import Agreement
from culm.intervals.events import Event
from culm.intervals.exchanged import Exchanged
from culm.intervals.interval import At, MetadataOnly, Regular, Single
from culm.intervals.items import PLAIN, decode_item
from culm.intervals.messages import Adjust, Lazy
from culm.intervals.progress import Course, Progress
from culm.intervals.states import OURS, OurEvent, Ours
from culm.intervals.stream import Stream, expected_hashes, stream_of
from culm.transfer import EntriesReceived, EntryReceived, PayloadCheck, PayloadFailed, PayloadReceived, Source

_MANY = 16  # Entries taken in one step from which on it pays to try again behind what stopped it.


class OurRequest(Progress):
    """A request of ours and the progress of its response.

    ``succession``: a request that stands for the one that takes over from this one, and the message that asked for
    that. ``expected``: the hashes that the request names, by number. ``leaves_hashing``: the owner of its events
    compares large payloads (``PayloadReceived.hasher``).
    """

    def __init__(self, course: Course, exchanged: Exchanged, source: Source, *, leaves_hashing: bool = False) -> None:
        super().__init__(course, exchanged)
        self._leaves_hashing = leaves_hashing
        self.state = Ours.OPEN
        self.succession: tuple[OurRequest, Adjust] | None = None
        self.distrusted: Entry | None = None  # an entry of a bad signature whose payload may still come
        self._source = source
        self._buffer = bytearray()  # of metadata that came in part
        self.agreement = Agreement()
        self._entry: Entry | None = None  # whose payload comes next
        self._check = PayloadCheck(self.offset)
        self.expected: dict[int, bytes] = expected_hashes(self.request, self.stream)

    # -- what it is --------------------------------------------------------------------------------------------

    @property
    def next_seq(self) -> int:
        """Number of the next item; 0 if there is none or the start is not known."""
        if self.stream is None or self.index >= self.stream.total:
            return 0
        return self.stream.item(self.index).seq

    @property
    def is_closing(self) -> bool:
        """Whether we cancelled or adjusted it."""
        return self.state in {Ours.CLOSING, Ours.DEFERRED_CLOSING}

    def move(self, event: OurEvent) -> None:
        """Go to the next state.

        If there is none: ``RemoteProtocolError`` for an answer, which the peer gave, else ``LocalProtocolError``.
        """
        following = OURS.get((self.state, event))
        if following is not None:
            self.state = following
        elif event is OurEvent.ANSWER:
            raise RemoteProtocolError(
                f"the peer answered request {self.request.id} before the one that it replaces has ended"
            )
        elif self.succession is not None:
            raise LocalProtocolError(
                f"request {self.request.id} was adjusted before: name the request that replaces it"
            )
        else:
            raise LocalProtocolError(f"request {self.request.id} was cancelled before")

    def started(self, start: int) -> None:
        """The peer said what the relative start is."""
        self.stream = stream_of(self.request, start)
        try:
            self.expected = expected_hashes(self.request, self.stream)
        except ValueError as error:  # ours; two numbers fell together
            raise LocalProtocolError(str(error)) from None

    def successor(self, message: Adjust) -> OurRequest:
        """The request that takes over, from where this one is."""
        successor = OurRequest(
            self.adjusted(message, self._source), self.exchanged, self._source, leaves_hashing=self._leaves_hashing
        )
        if self.position == successor.position:  # It goes on with the same payload.
            successor._entry, successor._check = self._entry, self._check
        return successor

    # -- data --------------------------------------------------------------------------------------------------

    def take(self, data: memoryview, events: list[Event]) -> None:
        """Take item data; ``RemoteProtocolError`` if it cannot be what was asked for."""
        at, goes_on = 0, True
        while at < len(data):
            if goes_on and self._is_plain:
                count, at = self._take_many(data, at, events)
                goes_on = count >= _MANY  # Otherwise each item would cost a look at all that follows it.
            if at < len(data):
                at = self._take_some(data, at, events)
        self._pass_empty_end()

    def check_eager(self) -> None:
        """``RemoteProtocolError`` if data comes where only announcements may."""
        if self.lazy:
            raise RemoteProtocolError("the peer sent item data in a response that is lazy here")

    def _take_some(self, data: memoryview, at: int, events: list[Event]) -> int:
        stream = self.stream
        assert stream is not None  # noqa: S101 - the message said the start
        if self.index >= stream.total:
            raise RemoteProtocolError("the peer sent bytes beyond the end of the interval")
        if self.lazy:
            raise RemoteProtocolError("the peer sent bytes beyond the position where the response becomes lazy")
        seq, is_payload = stream.item(self.index)
        if is_payload:
            return self._take_payload(data, at, seq, events)
        return self._take_metadata(data, at, seq, events)

    @property
    def _is_plain(self) -> bool:
        """Whether metadata of the range comes next, all of that with payloads, and nothing has to be watched for."""
        stream, request = self.stream, self.request
        return (
            stream is not None
            and stream.ascending
            and stream.in_range(self.index)
            and not (self._buffer or self.lazy or self.switch or request.has_filter)
            and request.verified
            and isinstance(request.interval, Regular)
            and not stream.item(self.index).is_payload
            and self.agreement.admits_run(stream.item(self.index).seq)
        )

    def _take_many(self, data: memoryview, at: int, events: list[Event]) -> tuple[int, int]:
        """Take what ``_take_some`` would take one by one, as long as it is plain.

        How many entries that were, and where the rest begins, which may be anything.
        """
        stream = self.stream
        assert stream is not None  # noqa: S101 - see _is_plain
        seq, most = stream.item(self.index).seq, (stream.range_indexes.stop - self.index) // 2
        known = {before: value for before in links_before(seq) if (value := self._hash_of(before)) is not None}
        items, size = entries_linked(data[at:], PLAIN, self.request.log, seq, known, most)
        if items:
            entries = [entry for entry, _ in items]
            self.exchanged.receive_whole(entries)
            self.agreement.remember_run(entries)
            events.append(EntriesReceived(self.request.id, items))
            self.index += 2 * len(items) - 1
            self._pass()
        return len(items), at + size

    def _pass_empty_end(self) -> None:
        """Pass a payload that has no bytes left, if it is the last item, because no byte follows that could do so.

        The same goes for the last item before a switch.
        """
        stream = self.stream
        if stream is None or self.lazy or self._buffer or self.index >= stream.total:
            return
        if self.index + 1 != stream.total and self.switch != (self.index + 1, 0):
            return
        if stream.item(self.index).is_payload:
            entry = self._payload_entry(stream.item(self.index).seq)
            if self.offset == entry.size and self.request.fits(entry.size):
                self._pass()

    def _pass(self) -> None:
        self.index += 1
        self.offset = 0
        self._entry, self._check = None, PayloadCheck()
        self.note_switch()

    # -- metadata ----------------------------------------------------------------------------------------------

    def _take_metadata(self, data: memoryview, at: int, seq: int, events: list[Event]) -> int:
        source: memoryview | bytearray = data
        begin = at
        before = len(self._buffer)
        if before:
            self._buffer += data[at : at + 512]
            source, begin = self._buffer, 0
        try:
            entry, end, explicit = decode_item(source, begin, self.request.log, seq, self._hash_of)
        except Truncated:
            if not before:
                self._buffer += data[at:]
            return len(data)
        except EncodingError as error:
            raise RemoteProtocolError(f"entry {seq} breaks the format: {error}") from None
        at = at + end - begin - before
        self._buffer.clear()
        events.append(EntryReceived(self.request.id, entry, self.request.verified))
        # A single entry that contradicts ours shows that the peer has another branch, so it lacks ours.
        if not (isinstance(self.request.interval, MetadataOnly) and self._is_foreign(seq, entry.hash)):
            self.exchanged.receive(entry)
        self._check_agrees(entry, explicit)
        self._pass()
        stream = self.stream
        if stream is not None and stream.in_range(self.index) and stream.item(self.index) == (seq, True):
            self._entry = entry
            if entry.size == 0 and self.request.fits(0) and not self.lazy:
                self._take_payload(data, at, seq, events)
        return at

    def _hash_of(self, seq: int) -> bytes | None:
        return self.agreement.hash_of(seq) or self.expected.get(seq)

    def _check_agrees(self, entry: Entry, explicit: tuple[tuple[int, bytes], ...]) -> None:
        """Refuse an entry that contradicts an earlier one, unless the response may hold anything."""
        if not self.agreement.admits(entry, explicit) and self.request.verified:
            raise RemoteProtocolError(f"entry {entry.seq} contradicts another entry of the same response")
        self.agreement.remember(entry, ascending=self.stream is not None and self.stream.ascending)

    # -- payloads ----------------------------------------------------------------------------------------------

    def expect_payload(self) -> None:
        """Settle whose payload the response begins with: when it comes, we may hold an entry of another branch, too.

        ``LocalProtocolError`` if bytes would come and that entry is not held: where the payload ends could not be told.
        """
        interval = self.request.interval
        start = interval.start if isinstance(interval, Regular) else interval
        if isinstance(start, At | Single):
            held = (kept.entry for kept in self._source.variants(self.request.log, start.seq))
            self._entry = next((entry for entry in held if start.own in {None, entry.hash}), None)
            if self._entry is None and not self.request.lazy:
                named = " of the hash that the request names" if start.own is not None else ""
                raise LocalProtocolError(
                    f"the response would begin with the payload of entry {start.seq}, and no such entry{named} is held:"
                    " ask for its metadata first"
                )

    def resume(self, entry: Entry, begun: PayloadHasher) -> None:
        """Say what the payload at the position belongs to, and what was hashed of it so far."""
        self._entry, self._check = entry, PayloadCheck(self.offset, begun)

    @property
    def payload_left(self) -> int:
        """Bytes that are to come of the payload under way; 0 if none is."""
        return self._entry.size - self.offset if self._entry is not None and self.offset else 0

    @property
    def awaits_payload(self) -> bool:
        """Whether the payload of the entry that came last is still to come, or a part of it."""
        return self._entry is not None

    def _payload_entry(self, seq: int) -> Entry:
        """Whose payload comes next: the entry that came before it, or one that we hold."""
        if self._entry is None or self._entry.seq != seq:
            named = self.expected.get(seq)
            variants = (kept.entry for kept in self._source.variants(self.request.log, seq))
            held = [entry for entry in variants if named in {None, entry.hash}]
            if not held:
                raise LocalProtocolError(
                    f"the payload of entry {seq} comes, but its metadata was only announced: adjust must name an entry"
                )
            self._entry = held[0]
        return self._entry

    def _take_payload(self, data: memoryview, at: int, seq: int, events: list[Event]) -> int:
        entry = self._payload_entry(seq)
        end = entry.size
        if not self.request.fits(end):
            raise RemoteProtocolError(
                f"the payload of entry {entry.seq} has {entry.size} bytes, a size that the request excludes"
            )
        if self.switch is not None and self.switch.at == self.index:
            end = min(end, self.switch.offset)
        piece = bytes(data[at : at + end - self.offset])
        offset, self.offset = self.offset, self.offset + len(piece)
        if self.offset < entry.size:
            self._check.add(piece)
            if piece:
                events.append(PayloadReceived(self.request.id, entry, offset, piece, complete=False, checked=False))
            self.note_switch()
            return at + len(piece)
        hasher = self._check.leave(piece) if self._leaves_hashing and not self._began_elsewhere else None
        is_right = self._check.finish(entry, piece) if hasher is None else None
        if is_right is False:
            events.append(PayloadFailed(self.request.id, entry, is_theirs=not self._began_elsewhere))
        else:
            checked = is_right is not None
            events.append(
                PayloadReceived(self.request.id, entry, offset, piece, complete=True, checked=checked, hasher=hasher)
            )
            self.exchanged.received.add(entry.seq, is_payload=True)
        self._pass()
        return at + len(piece)

    @property
    def _began_elsewhere(self) -> bool:
        """Whether the beginning of the payload under way was held before."""
        return self.index == self.begin.at and self.begin.offset > 0

    # -- announcements and confirmations -----------------------------------------------------------------------

    def take_lazy(self, message: Lazy) -> tuple[int, bool]:
        """Move on without data; the number of the last entry passed, 0 if none was, and whether it is not ours.

        ``RemoteProtocolError`` if the items are beyond the end, or ones that only data can stand for.
        """
        stream = self.stream
        assert stream is not None  # noqa: S101 - the message said the start
        end = self.index + message.items
        if end > stream.total:
            raise RemoteProtocolError("the peer announced items beyond the end of the interval")
        if self.switch is not None and self.switch < (end, 0):
            raise RemoteProtocolError(
                "the peer announced items beyond the position where the response changes between lazy and eager"
            )
        if not self.lazy and message.items and not self._were_sent(stream, message.items):
            raise RemoteProtocolError("the peer confirmed items that it does not have from us")
        if message.trailing:
            self._check_trailing(stream, end, message.trailing)
        last = stream.item(end - 1).seq if message.items else 0
        is_other = False
        if message.items:
            # A fork comes to light: the peer announces an entry that we hold another one of, or it confirms one that it
            # has from somebody else while it has not, or not yet, stored ours.
            is_other = message.hash is not None and self._is_foreign(last, message.hash)
            self.exchanged.heard_of.add_span(stream, self.index, message.items)
            if message.hash is not None:
                self.exchanged.heard_hash = last, message.hash
            self._buffer.clear()
            self.index, self.offset = end - 1, 0
            self._pass()
        entered = self.begin.offset if self.index == self.begin.at else 0
        if message.trailing and entered + message.trailing > self.offset:
            self.offset = entered + message.trailing
            self._check.lose()
        self.note_switch()
        return last, is_other

    def _were_sent(self, stream: Stream, items: int) -> bool:
        """Whether the peer has, or heard of, all of the next items from us."""
        for index in range(self.index, self.index + items):
            seq, is_payload = stream.item(index)
            exchanged = self.exchanged
            if not (
                exchanged.sent.has(seq, is_payload=is_payload) or exchanged.announced.has(seq, is_payload=is_payload)
            ):
                return False
        return True

    def _check_trailing(self, stream: Stream, index: int, trailing: int) -> None:
        if index >= stream.total or not stream.item(index).is_payload:
            raise RemoteProtocolError("the peer announced bytes of a payload, but no payload comes next")
        entry = self._entry
        entered = self.begin.offset if index == self.begin.at else 0
        if entry is not None and entry.seq == stream.item(index).seq and entered + trailing > entry.size:
            raise RemoteProtocolError("the peer announced more bytes of a payload than it has")
        if self.switch is not None and self.switch < (index, entered + trailing):
            raise RemoteProtocolError("the peer announced bytes beyond the position where the response becomes eager")
        if not self.lazy and not self.exchanged.sent.has(stream.item(index).seq, is_payload=True):
            raise RemoteProtocolError("the peer confirmed bytes that it does not have from us")

    def _is_foreign(self, seq: int, value: bytes) -> bool:
        """Whether we hold entries of a number, and all of them have another hash."""
        held = self._source.variants(self.request.log, seq)
        return bool(held) and all(kept.entry.hash != value for kept in held)

    def abandon_part(self) -> None:
        """Drop metadata that came in part: the response ended inside it."""
        self._buffer.clear()
