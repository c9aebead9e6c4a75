"""What the peer sends on one proposal: where it is, and what may come there.

Messages carry no sequence numbers, and not those links whose targets the receiver has: these follow from the place and
from what was sent before. A message that is not legal at its place ends the connection.

*Apologies.* In safe mode a peer sends only what it has verified, so anything wrong is an offence. In greedy mode it may
pass on the bytes of a payload before it has all of them; then it cannot know yet that they are right, and neither can
we. When it finds out that they are not, it apologises: the item counts as never sent, and the cursor goes back to where
the item began. We may find out first, because we have the last byte; then the only thing that the peer can say next is
the apology (``is_wrong``). For one item an apology is accepted once, because a peer that sends wrong bytes and
apologises for ever would cost as much as it likes.

Specification: docs/specs/proposals.md, "Cursors", "Payloads", "Links", "Greedy sending".
"""

from dataclasses import dataclass, field

from culm.bamboo import MAX_U64, Entry, is_authentic, lipmaa
from culm.bamboo.linked import entries_linked, links_before
from culm.bamboo.lipmaa import has_lipmaalink
from culm.errors import RemoteProtocolError
from culm.proposals.data import PLAIN, Metadata, Why
from culm.proposals.events import Event, Noticed, Skipped
from culm.proposals.limits import Limits
from culm.proposals.messages import Wish
from culm.proposals.scope import Scope
from culm.proposals.sequence import Item, outer_seq
from culm.ranges.runs import Runs
from culm.transfer import (
    EntriesReceived,
    EntryReceived,
    LinkHashes,
    PayloadCheck,
    PayloadFailed,
    PayloadReceived,
    Source,
    entry_at,
)


@dataclass(slots=True)
class _Payload:
    """What is known of the payload of entry ``seq``: the entry and its size, and whether both sides mean this entry.

    They do if the peer has sent its metadata, or the proposal names its hash.
    """

    seq: int
    entry: Entry | None = None
    size: int | None = None
    is_agreed: bool = False
    check: PayloadCheck = field(default_factory=PayloadCheck)


@dataclass(frozen=True, slots=True)
class _Sent:
    """The item that the peer sent last: where it stands, where its bytes began, and whether it proved right."""

    index: int
    offset: int
    is_right: bool


class Incoming:
    """The peer's cursor on a proposal, derived from what comes.

    ``index`` and ``offset``: the next item, and the bytes of it that are behind (of a payload). ``passed``: the items
    that need not be sent to the peer: it sent them, told of them, or left them out for their size. ``lost``: what comes
    is only read, not understood. ``is_wrong``: the last item was wrong, an apology is due. ``is_astray``: the
    last entry links to another one than we hold.
    """

    def __init__(self, scope: Scope, limits: Limits) -> None:
        self.index = 0
        self.offset = scope.proposal.offset or 0
        self.passed = Runs()
        self.lost = False
        self.is_wrong = False
        self.is_astray = False
        self._scope = scope
        self._cursor = scope.cursor
        self._limits = limits
        self._outer = outer_seq(scope.proposal)
        self._hashes = LinkHashes(limits.hashes, self._outer)
        self._last_metadata = 0  # the entry whose metadata the peer sent last
        self._sent: _Sent | None = None
        self._apologised = -1  # the last item it apologised for
        self._payload = _Payload(0)  # that of the cursor, once it was looked up

    @property
    def payload_left(self) -> int:
        """Bytes that are left of the payload the cursor is in; 0 at its beginning."""
        return (self._payload.size or 0) - self.offset if self.offset else 0

    # -- where it is -------------------------------------------------------------------------------------------

    def _item(self) -> Item:
        if self.is_wrong:
            raise RemoteProtocolError("the peer sent a wrong item, and something else than an apology behind it")
        if self.index >= self._scope.total:
            raise RemoteProtocolError("the peer sent an item behind the last one")
        return self._scope.sequence.item(self.index)

    def _payload_item(self, source: Source) -> Item:
        """The payload the cursor is at, what is known of it looked up."""
        item = self._item()
        if not item.is_payload:
            raise RemoteProtocolError(f"the peer sent bytes of a payload; expected: the metadata of entry {item.seq}")
        if self._payload.seq != item.seq:
            self._know(item.seq, source)
        return item

    def _know(self, seq: int, source: Source) -> None:
        entry = entry_at(source, self._scope.proposal.log, seq)
        begun = self._scope.begun if self.offset and self.index == 0 else None
        self._payload = _Payload(
            seq,
            entry,
            None if entry is None else entry.size,
            self._outer == seq,
            PayloadCheck(self.offset, begun),
        )

    def _move(self, count: int = 1) -> None:
        self.index += count
        self.offset = 0

    def _pass(self, count: int = 1) -> None:
        """Go on behind so many items, which need not be sent to the peer."""
        self.passed.add(self.index, self.index + count - 1)
        if len(self.passed) > self._limits.runs:
            own = self._cursor.index  # what is behind is of no use; what is far ahead can be sent again
            useful = [run for run in self.passed if run[1] >= own - 1]
            self.passed = Runs(useful[: self._limits.runs // 2])
        self._move(count)

    # -- notices and skips -------------------------------------------------------------------------------------

    def notify(self, count: int, events: list[Event]) -> None:
        """The peer has so many items, which it does not send."""
        if not count:
            return
        self._item()
        scope = self._scope
        if count > scope.total - self.index:
            raise RemoteProtocolError(f"the peer told of {count} items, but {scope.total - self.index} are left")
        first_new = max(self.index, self._cursor.highest[0])
        self._check_notice(first_new, self.index + count)
        self._pass(count)
        self._sent = None
        if self.index > first_new:
            events.append(Noticed(scope.id, self.index - first_new))

    def _check_notice(self, low: int, high: int) -> None:
        """Whether it was ever right to tell of items instead of sending them."""
        ours = self._scope.ours
        if low >= high or Wish.NOTIFY in ours.said:
            return
        # Two items tell it all, though a notice may be of 2^64. One of them is metadata, except in a range of payloads
        # alone; and there only the first payload can be of an entry that both sides are known to mean.
        for index in range(low, min(high, low + 2)):
            item = self._scope.sequence.item(index)
            if not item.is_payload:
                raise RemoteProtocolError(f"the peer only told of entry {item.seq}, but has to send it")
            size = self._payload.size if self._payload.seq == item.seq and self._payload.is_agreed else None
            if size is not None and not ours.ever_took_notice(size):
                raise RemoteProtocolError(f"the peer only told of the payload of entry {item.seq}, but has to send it")

    def skip(self, why: Why, source: Source, events: list[Event]) -> None:
        """The peer leaves out the payload, or the rest of it."""
        item = self._payload_item(source)
        ours, size = self._scope.ours, self._payload.size if self._payload.is_agreed else None
        if why is Why.NOT_AVAILABLE:
            if not ours.may_skip:
                raise RemoteProtocolError(
                    f"the peer left out the payload of entry {item.seq}, but payloads are mandatory"
                )
            self._move()
        else:
            if size is not None and why is Why.TOO_SMALL and size >= ours.least:
                raise RemoteProtocolError(
                    f"the peer called a payload of {size} bytes too small; asked for: {ours.least} or more"
                )
            if size is not None and why is Why.TOO_LARGE and size <= ours.greatest:
                raise RemoteProtocolError(
                    f"the peer called a payload of {size} bytes too large; asked for: {ours.greatest} or less"
                )
            self._pass()
        self._sent = None
        events.append(Skipped(self._scope.id, item.seq, why is not Why.NOT_AVAILABLE))

    def skip_bytes(self, count: int, source: Source) -> None:
        """The peer leaves out bytes of the payload that we have sent."""
        item = self._payload_item(source)
        highest, size = self._cursor.highest, self._payload.size
        most = 0
        if highest[0] >= self.index:
            most = highest[1] if highest[0] == self.index else size or MAX_U64  # not known of a fork
        if count and self.offset + count > min(most, size or most):
            raise RemoteProtocolError(
                f"the peer left out bytes of the payload of entry {item.seq} that we have not sent"
            )
        self.offset += count
        if count:
            self._payload.check.lose()
        if count and self.offset == size:
            self._pass()

    # -- metadata ----------------------------------------------------------------------------------------------

    def metadata(self, message: Metadata, source: Source, events: list[Event], *, greedy: bool) -> Entry | None:
        """The metadata of an entry: the entry, None if it is wrong or cannot be put together.

        In safe mode its signature is left to the caller to check.
        """
        item = self._item()
        scope, seq = self._scope, item.seq
        if item.is_payload:
            raise RemoteProtocolError(f"the peer sent metadata; expected: the payload of entry {seq}")
        if not scope.ours.ever_took_metadata():
            raise RemoteProtocolError("the peer sent metadata, but only notices were asked for")
        self._check_form(seq, message)
        entry = self._assembled(seq, message, source)
        if self.is_astray:
            return None
        if greedy and entry is not None and not is_authentic(entry):
            self.is_wrong, self._sent = True, _Sent(self.index, 0, is_right=False)
            return None
        self._sent = _Sent(self.index, 0, is_right=entry is not None)
        if entry is not None:  # Otherwise it cannot be put together, for want of an entry that it links to.
            events.append(EntryReceived(scope.id, entry, verified=True))
            self._hashes.add(seq, entry.hash)
            if entry.is_end:
                scope.end_at(seq, is_peers=True)
        self._last_metadata = seq
        self._pass()
        self._payload = _Payload(seq, entry, message.size, is_agreed=True)
        return entry

    def plain(self) -> range:
        """The numbers of entries that may come next, each with its payload, and of that any size; empty if none may.

        Backlinks are left out of all of them, because the peer has just sent the entry before the first.
        """
        scope, sequence, sizes = self._scope, self._scope.sequence, (0, MAX_U64)
        begin, end = len(sequence.lower), min(sequence.range_end, scope.total)
        is_usual = sequence.path is None and not (sequence.payload_only or self.offset or self.is_wrong or self.lost)
        if not (is_usual and begin <= self.index < end and all(map(scope.ours.ever_took_payload, sizes))):
            return range(0)
        seq, is_payload = sequence.item(self.index)
        if is_payload or (seq > 1 and self._last_metadata != seq - 1):
            return range(0)
        return range(seq, seq + (end - self.index) // 2)

    def take_plain(self, numbers: range, data: memoryview, events: list[Event]) -> tuple[int, int]:
        """Take entries of these numbers with their payloads as long as all is well; how many, and of how many bytes."""
        proposal, first = self._scope.proposal, numbers[0]
        known = {seq: value for seq in links_before(first) if (value := self._named(seq)) is not None}
        items, size = entries_linked(data, PLAIN, proposal.log, first, known, numbers[-1] - first + 1)
        if items:
            events.append(EntriesReceived(proposal.id, items))
            self._hashes.add_run(first, [entry.hash for entry, _ in items])
            last = items[-1][0]
            self._last_metadata, self.is_astray = last.seq, False
            self._payload = _Payload(last.seq, last, last.size, is_agreed=True)
            self._pass(2 * len(items))
            self._sent = _Sent(self.index - 1, 0, is_right=True)
        return len(items), size

    def _check_form(self, seq: int, message: Metadata) -> None:
        """Whether the backlink is there exactly where it has to be."""
        if not has_lipmaalink(seq) or self._last_metadata == seq - 1:
            if message.backlink is not None:
                raise RemoteProtocolError(
                    f"the peer sent the backlink of entry {seq}, which is known and has to be left out"
                )
        elif message.backlink is None and seq - 1 not in self._cursor.sent:
            raise RemoteProtocolError(f"the peer left out the backlink of entry {seq}, which was not sent before")

    def _assembled(self, seq: int, message: Metadata, source: Source) -> Entry | None:
        """The entry, None if a link is not known."""
        lipmaalink = backlink = None
        is_assumed = False
        if seq > 1:
            # The peer links to its own entries. If it never showed us one of them, ours may be of another branch.
            left_out = {lipmaa(seq)} if message.backlink else {lipmaa(seq), seq - 1}
            is_assumed = any(self._named(link) is None for link in left_out)
            backlink = message.backlink or self._hash_of(seq - 1, source)
            if has_lipmaalink(seq):
                lipmaalink = self._hash_of(lipmaa(seq), source)
            if backlink is None or (lipmaalink is None and has_lipmaalink(seq)):
                return None
        log = self._scope.proposal.log
        entry = Entry.assemble(
            log, seq, message.is_end, lipmaalink, backlink, message.size, message.payload_hash, message.signature
        )
        self.is_astray = is_assumed and not is_authentic(entry)
        return entry

    def _hash_of(self, seq: int, source: Source) -> bytes | None:
        """The hash of an entry: as the peer sent it, as we sent it or hold it, or as the proposal says."""
        value = self._named(seq)
        if value is None:
            entry = entry_at(source, self._scope.proposal.log, seq)
            if entry is None:
                return None
            value = entry.hash
        self._hashes.add(seq, value)
        return value

    def _named(self, seq: int) -> bytes | None:
        """The hash of an entry that was sent, or that the proposal names."""
        value = self._hashes.get(seq)
        return self._scope.proposal.hash if value is None and self._outer == seq else value

    def contradicts(self, entry: Entry) -> bool:
        """Whether the peer's entries are others than this one, or than those that it links to.

        The peer links to the entry that the proposal names by its hash, whether anybody holds it or not.
        """
        outer, named = self._outer, self._scope.proposal.hash
        if outer is None and not self._hashes:  # As where the peer only receives: looking at links would cost much.
            return False
        if self._hashes.get(entry.seq, entry.hash) != entry.hash:
            return True
        return any(
            self._hashes.get(seq, value) != value or (seq == outer and value != named) for seq, value in entry.links
        )

    # -- payloads ----------------------------------------------------------------------------------------------

    def begin(self, count: int, source: Source, events: list[Event]) -> bool:
        """So many bytes of a payload follow. False if nothing is known of it, so that they cannot be understood.

        Nor can they if they do not fit our entry, and the peer may mean another one.
        """
        item, size = self._payload_item(source), self._payload.size
        if size is None:
            return False
        problem = None
        if not self._scope.ours.ever_took_payload(size):
            problem = f"the peer sent bytes of the payload of entry {item.seq}, which was not asked for"
        elif self.offset > size or count > size - self.offset:
            problem = f"the peer sent {count} bytes of a payload, but only {size - self.offset} are left"
        if problem is not None:
            if self._payload.is_agreed or not self._scope.ours.ever_took_metadata():  # of an entry of any size
                raise RemoteProtocolError(problem)
            return False
        if self.offset == size:
            self._complete(b"", events, greedy=False)
        return True

    def body(self, data: bytes, events: list[Event], *, greedy: bool) -> None:
        """Bytes of the payload."""
        if self._sent is None or self._sent.index != self.index:
            self._sent = _Sent(self.index, self.offset, is_right=False)
        payload = self._payload
        if self.offset + len(data) == payload.size:
            self._complete(data, events, greedy=greedy)
            return
        payload.check.add(data)
        if payload.entry is not None:
            events.append(
                PayloadReceived(self._scope.id, payload.entry, self.offset, data, complete=False, checked=False)
            )
        self.offset += len(data)

    def _complete(self, data: bytes, events: list[Event], *, greedy: bool) -> None:
        """The last bytes of a payload."""
        payload, scope = self._payload, self._scope
        entry = payload.entry
        if entry is not None:
            is_right = payload.check.finish(entry, data)
            if is_right is False:
                self._fail(entry, data, events, greedy=greedy)
                return
            events.append(
                PayloadReceived(scope.id, entry, self.offset, data, complete=True, checked=is_right is not None)
            )
        begin = self._sent.offset if self._sent is not None else self.offset
        self._sent = _Sent(self.index, begin, is_right=True)
        self._pass()

    def _fail(self, entry: Entry, data: bytes, events: list[Event], *, greedy: bool) -> None:
        """A payload is complete and wrong. A greedy peer will apologise; a safe one has broken the protocol."""
        is_theirs = self._payload.is_agreed and not (self.index == 0 and self._scope.proposal.offset)
        events.append(PayloadFailed(self._scope.id, entry, is_theirs=is_theirs, is_taken_back=is_theirs and greedy))
        if not is_theirs:  # The beginning may be what is wrong, so the peer may have nothing to apologise for.
            self._move()
        elif greedy:
            self.is_wrong = True
            self.offset += len(data)
        else:
            raise RemoteProtocolError(f"the payload that the peer sent is not the one that entry {entry.seq} names")

    def end(self, events: list[Event]) -> None:
        """The peer sends nothing more: a wrong payload that it did not take back by now is its fault."""
        entry = self._payload.entry
        if self.is_wrong and entry is not None and self._scope.sequence.item(self.index).is_payload:
            events.append(PayloadFailed(self._scope.id, entry))

    # -- apologies ---------------------------------------------------------------------------------------------

    def apologise(self, events: list[Event], *, greedy: bool) -> None:
        """The item that the peer sent last was wrong: it was never sent."""
        sent, scope = self._sent, self._scope
        if not greedy:
            raise RemoteProtocolError(
                "the peer apologised, but only greedy mode allows what needs an apology, and it is off"
            )
        if sent is None or sent.is_right:
            raise RemoteProtocolError("the peer apologised, but it sent nothing before, or what it sent was right")
        if self._apologised == sent.index:
            raise RemoteProtocolError("the peer apologised twice for the same item")
        self._apologised = sent.index
        item = scope.sequence.item(sent.index)
        if item.is_payload and self._payload.entry is not None and not self.is_wrong:
            events.append(PayloadFailed(scope.id, self._payload.entry, is_taken_back=True))
        self.is_wrong, self._sent = False, None
        self.index = sent.index
        self.offset = (scope.proposal.offset or 0) if sent.index == 0 else 0
        if item.is_payload:
            self._payload.check = PayloadCheck(self.offset)
