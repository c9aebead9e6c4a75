"""What we send on one proposal: where we are, and what comes next.

Specification: docs/specs/proposals.md, "Cursors", "Payloads", "Links", "Greedy sending".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from culm.bamboo.lipmaa import has_lipmaalink
from culm.proposals.messages import Apology, DataMessage, Metadata, Notify, Raw, Skip, SkipBytes, Why
from culm.ranges.runs import Runs

if TYPE_CHECKING:
    from culm.proposals.exchange import Exchange
    from culm.proposals.limits import Limits
    from culm.transfer import Kept, Source

_PAGE = 128
_NOTICES = 4096  # items told of at once


class Step(NamedTuple):
    """What is sent next: messages, and the bytes that belong to the last of them, a ``Raw`` one."""

    messages: tuple[DataMessage, ...]
    body: bytes = b""


class Outgoing:
    """Our cursor on a proposal.

    ``index`` and ``offset``: the next item, and the bytes of it that are behind (of a payload). ``highest``: the
    farthest both ever were. ``sent``: the entries whose metadata we sent.
    """

    def __init__(self, exchange: Exchange, limits: Limits) -> None:
        self.index = 0
        self.offset = exchange.proposal.offset or 0
        self.highest = (0, self.offset)
        self.sent = Runs()
        self._exchange = exchange
        self._limits = limits
        self._page: dict[int, Kept] = {}
        self._apologised = -1
        self._began = -1  # the payload of which bytes were sent last

    def wake(self) -> None:
        """What is held has changed."""
        self._page.clear()

    @property
    def target(self) -> int:
        """The next item that the peer did not send itself."""
        run = self._exchange.incoming.passed.around(self.index)
        return self.index if run is None else run[1] + 1

    @property
    def has_begun(self) -> bool:
        """Whether anything was sent."""
        return self.highest != (0, self._exchange.proposal.offset or 0)

    def _kept(self, seq: int, source: Source) -> Kept | None:
        kept = self._page.get(seq)
        if kept is None:
            log, limit = self._exchange.proposal.log, _PAGE if self._exchange.sequence.path is None else 1
            if source.held(log).entries_around(seq) is None:  # or it is not for others
                return None
            found = source.page(log, seq, ascending=True, limit=limit)
            self._page = {kept.entry.seq: kept for kept in found}
            kept = self._page.get(seq)
        if kept is not None and self._exchange.incoming.contradicts(kept.entry):
            return None  # the log is forked, which shows once what came is stored
        return kept

    def step(self, source: Source, room: int, *, greedy: bool) -> Step | None:
        """What to send now, with about ``room`` bytes of data; None if there is nothing, for now or ever."""
        exchange = self._exchange
        if exchange.incoming.is_wrong:
            return None
        if greedy and self._owes_apology(source):
            self._apologised, self._began = self.index, -1
            self.offset = (exchange.proposal.offset or 0) if self.index == 0 else 0
            return Step((Apology(),))
        target = self.target
        if target >= exchange.total:
            return None
        offset = self.offset if target == self.index else 0
        item = exchange.sequence.item(target)
        if item.is_payload:
            step = self._payload(item.seq, target, offset, source, room, greedy=greedy)
        else:
            step = self._metadata(item.seq, target, source)
        if step is None:
            return None
        if target > self.index:
            return Step((Notify(target - self.index), *step.messages), step.body)
        return step

    def can_add(self, source: Source) -> bool:
        """Whether there is anything that the peer did not send itself."""
        exchange, at = self._exchange, self.index
        held = source.held(exchange.proposal.log)
        for _ in range(_NOTICES):
            run = exchange.incoming.passed.around(at)
            at = at if run is None else run[1] + 1
            if at >= exchange.total:
                return False
            seq, is_payload = exchange.sequence.item(at)
            if (held.payloads_around(seq) if is_payload else held.entries_around(seq)) is not None:
                return True
            at += 1
        return True

    def moved(self, step: Step) -> None:
        """A step was sent: the cursor is behind it."""
        for message in step.messages:
            match message:
                case Notify(count):
                    self.index, self.offset = self.index + count, 0
                case Skip():
                    self.index, self.offset = self.index + 1, 0
                case Metadata():
                    seq = self._exchange.sequence.item(self.index).seq
                    self.sent.add(seq, seq)
                    if message.is_end:
                        self._exchange.end_at(seq, is_peers=False)
                    self.index, self.offset = self.index + 1, 0
                case SkipBytes(count):
                    self._advance(count)
                case Raw(count):
                    self._began = self.index
                    self._advance(count)
                case _:
                    pass
        self.highest = max(self.highest, (self.index, self.offset))

    def _advance(self, count: int) -> None:
        self.offset += count
        seq = self._exchange.sequence.item(self.index).seq
        if self.offset >= self._page[seq].entry.size:
            self.index, self.offset = self.index + 1, 0

    # -- metadata ----------------------------------------------------------------------------------------------

    def _metadata(self, seq: int, index: int, source: Source) -> Step | None:
        if not self._exchange.theirs.takes_metadata():
            return self._notices(index, source)
        kept = self._kept(seq, source)
        if kept is None:
            return None
        entry = kept.entry
        backlink = entry.backlink if has_lipmaalink(seq) and seq - 1 not in self.sent else None
        return Step((Metadata(entry.is_end, backlink, entry.size, entry.payload_hash, entry.signature),))

    def _notices(self, index: int, source: Source) -> Step | None:
        """Tell of everything from an index on that is there, where only that is wanted."""
        exchange = self._exchange
        held = source.held(exchange.proposal.log)
        end, most = index, min(exchange.total, index + _NOTICES)
        theirs = exchange.theirs
        while end < most:
            seq, is_payload = exchange.sequence.item(end)
            if (held.payloads_around(seq) if is_payload else held.entries_around(seq)) is None:
                break
            if is_payload and (theirs.least or theirs.greatest < _MANY):
                break  # its size is to be looked at
            end += 1
            if end in exchange.incoming.passed:
                break
        return Step((Notify(end - index),)) if end > index else None

    # -- payloads ----------------------------------------------------------------------------------------------

    def _payload(self, seq: int, index: int, offset: int, source: Source, room: int, *, greedy: bool) -> Step | None:
        exchange, theirs = self._exchange, self._exchange.theirs
        kept = self._kept(seq, source)
        if kept is None:
            return None
        size = kept.entry.size
        if not theirs.least <= size <= theirs.greatest:
            return Step((Skip(Why.TOO_SMALL if size < theirs.least else Why.TOO_LARGE),))
        log = exchange.proposal.log
        if not kept.complete:
            if not source.expects(log, seq):
                return Step((Skip(Why.NOT_AVAILABLE),)) if theirs.may_skip else None
            if not greedy or index == self._apologised:
                return None
        if not theirs.takes_payload(size) or not (offset or self._is_known(seq, index)):
            return Step((Notify(1),)) if kept.complete else None
        return self._bytes(kept, index, offset, source, room)

    def _is_known(self, seq: int, index: int) -> bool:
        """Whether the peer has the metadata that belongs to a payload."""
        exchange = self._exchange
        before = exchange.sequence.index_of(seq, is_payload=False)
        return before is None or before != index - 1 or seq in self.sent or before in exchange.incoming.passed

    def _bytes(self, kept: Kept, index: int, offset: int, source: Source, room: int) -> Step | None:
        incoming, size = self._exchange.incoming, kept.entry.size
        held = size if kept.complete else min(kept.payload_held, size - 1)  # the last byte waits for the check
        messages: tuple[DataMessage, ...] = ()
        if incoming.index == index and incoming.offset > offset:  # the peer is ahead in the same payload
            if incoming.offset >= held:
                return None
            messages = (SkipBytes(incoming.offset - offset),)
            offset = incoming.offset
        if offset == size:
            return Step((*messages, Raw(0)))
        wanted = min(room, self._limits.chunk, held - offset)
        if wanted <= 0:
            return None
        small = kept.small
        body = source.payload(kept, offset, wanted) if small is None else small[offset : offset + wanted]
        if not body:  # it was forgotten meanwhile
            self._page.clear()
            return None
        return Step((*messages, Raw(len(body))), body)

    def _owes_apology(self, source: Source) -> bool:
        """Whether a payload of which bytes were sent before it was checked turned out to be another one."""
        if self._began != self.index or not self.offset:
            return False
        seq = self._exchange.sequence.item(self.index).seq
        kept = self._kept(seq, source)
        return kept is not None and not kept.complete and kept.payload_held < self.offset


_MANY = 2**64 - 1
