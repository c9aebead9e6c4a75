"""What we send on one proposal: where we are, and what comes next.

Specification: docs/specs/proposals.md, "Cursors", "Payloads", "Links", "Greedy sending".
"""

from typing import NamedTuple

from culm.bamboo import MAX_U64, encode_varu64
from culm.bamboo.entry import HASH_AND_SIGNATURE_BYTES
from culm.bamboo.lipmaa import has_lipmaalink
from culm.proposals.data import METADATA, RAW, Apology, DataMessage, Metadata, Notify, Raw, Skip, SkipBytes, Why
from culm.proposals.incoming import Incoming
from culm.proposals.scope import Scope
from culm.transfer import PAGE_ENTRIES, Kept, Pages, Source
from culm.types import Buffer

_METADATA, _RAW = bytes((METADATA,)), bytes((RAW,))
_NOTICES = 4096  # The most items for one notice, so that looking them up takes a bounded time.


class Step(NamedTuple):
    """What is sent next: messages, and the bytes that belong to the last of them, a ``Raw`` one.

    ``item`` and ``offset``: where the cursor is then, as an index and the bytes behind it. ``entry``: the number of the
    entry whose metadata is sent; 0 if none is.
    """

    messages: tuple[DataMessage, ...]
    item: int
    offset: int = 0
    body: Buffer = b""
    entry: int = 0


class Outgoing:
    """Moves our cursor along a proposal, past what the peer has sent itself (``incoming``)."""

    def __init__(self, scope: Scope, incoming: Incoming) -> None:
        self._scope = scope
        self._at = scope.cursor
        self._incoming = incoming
        self._pages = Pages(scope.proposal.log)
        self._apologised = -1
        self._began = -1  # the item whose bytes were sent last
        self._held_up_at = -1  # the item at which the owner was told that we lack its entry
        self._lacks_mandatory = False  # The last step failed for want of a payload that the peer does not let us skip.

    def wake(self) -> None:
        """What is held has changed."""
        self._pages.clear()
        self._held_up_at = -1

    @property
    def target(self) -> int:
        """The next item that the peer did not send itself."""
        passed = self._incoming.passed
        run = passed.around(self._at.index) if passed else None
        return self._at.index if run is None else run[1] + 1

    @property
    def has_begun(self) -> bool:
        """Whether anything was sent."""
        return self._at.highest != (0, self._scope.proposal.offset or 0)

    @property
    def is_in_payload(self) -> bool:
        """Whether the beginning of a payload was sent, and the rest comes next."""
        return self._at.offset > 0

    def _is_shown(self, seq: int, source: Source) -> bool:
        """Whether an entry is held, and may be shown to this peer."""
        return source.held(self._scope.proposal.log).entries_around(seq) is not None

    def _kept(self, seq: int, source: Source) -> Kept | None:
        kept = self._pages.get(seq)
        if kept is None and self._is_shown(seq, source):
            is_sparse = self._scope.sequence.path is not None
            kept = self._pages.read_anew(source, seq, limit=1 if is_sparse else PAGE_ENTRIES)
        if kept is not None and self._incoming.contradicts(kept.entry):
            return None  # The log is forked. That comes to light when the entries that came are stored.
        return kept

    def step(self, source: Source, room: int, *, greedy: bool) -> Step | None:
        """What to send now, with about ``room`` bytes of data; None if there is nothing, for now or ever."""
        scope = self._scope
        self._lacks_mandatory = False
        if self._incoming.is_wrong:
            return None
        if greedy and self._owes_apology(source):
            self._apologised, self._began = self._at.index, -1
            return Step((Apology(),), self._at.index, (scope.proposal.offset or 0) if self._at.index == 0 else 0)
        target = self.target
        if target >= scope.total:
            return None
        offset = self._at.offset if target == self._at.index else 0
        item = scope.sequence.item(target)
        if item.is_payload:
            step = self._payload(item.seq, target, offset, source, room, greedy=greedy)
        else:
            step = self._metadata(item.seq, target, source)
        if step is not None and target > self._at.index:
            return step._replace(messages=(Notify(target - self._at.index), *step.messages))
        return step

    def run(self, source: Source, room: int) -> tuple[bytes, int]:
        """Entries with whole payloads, as messages of about ``room`` bytes, and how many; the cursor is behind them.

        ``step`` would give the same one by one, at three times the cost, because it decides about each item anew. Here
        nothing has to be decided: the peer wants everything of a dense range, and has sent none of it that is ahead of
        us. Where that does not hold there are no entries.
        """
        at, sequence = self._at, self._scope.sequence
        parts: list[bytes] = []
        index, end = at.index, min(sequence.range_end, self._scope.total) - 1
        if not self._is_plain or index >= end or (item := sequence.item(index)).is_payload:
            return b"", 0
        seq = item.seq
        if not self._is_shown(seq, source):  # Once for all of them, because it costs as much as reading a few.
            return b"", 0
        is_behind_sent = seq - 1 in at.sent
        while room > 0 and index < end:
            kept = self._pages.read(source, seq)
            if kept is None or kept.small is None or kept.entry.is_end or len(kept.small) > room:
                break
            if self._incoming.contradicts(kept.entry):
                break
            entry, size = kept.entry, encode_varu64(kept.entry.size)
            backlink = b"" if is_behind_sent or not has_lipmaalink(seq) else entry.backlink or b""
            # From the size on the bytes of an entry are those of its metadata.
            rest = entry.encoded[-len(size) - HASH_AND_SIGNATURE_BYTES :]
            parts += (_METADATA, backlink, rest, _RAW, size, kept.small)
            room -= len(backlink) + len(rest) + len(size) + len(kept.small) + 2
            index, seq, is_behind_sent = index + 2, seq + 1, True
        if parts:
            at.sent.add(item.seq, seq - 1)
            at.index = self._began = index
            at.highest = max(at.highest, (index, 0))
        return b"".join(parts), seq - item.seq

    @property
    def _is_plain(self) -> bool:
        """Whether the next items are of a dense range and nothing but their place decides what is sent."""
        incoming, sequence, theirs = self._incoming, self._scope.sequence, self._scope.theirs
        passed = incoming.passed.extent
        return (
            not (self._at.offset or incoming.is_wrong or incoming.offset)
            and (passed is None or passed[1] < self._at.index)
            and sequence.path is None
            and not sequence.payload_only
            and self._at.index >= len(sequence.lower)
            and theirs.takes_everything
        )

    def can_add(self, source: Source) -> bool:
        """Whether there is anything that the peer did not send itself."""
        scope, at = self._scope, self._at.index
        held = source.held(scope.proposal.log)
        for _ in range(_NOTICES):
            run = self._incoming.passed.around(at)
            at = at if run is None else run[1] + 1
            if at >= scope.total:
                return False
            seq, is_payload = scope.sequence.item(at)
            if (held.payloads_around(seq) if is_payload else held.entries_around(seq)) is not None:
                return True
            at += 1
        return True

    def is_new_gap(self, source: Source) -> bool:
        """Whether an entry that we lack comes next, for the first time since anything has changed.

        Where a payload that we lack may not be skipped, the entry behind it counts.
        """
        scope, target = self._scope, self.target
        if target in (self._held_up_at, scope.total) or not scope.theirs.takes_metadata():
            return False
        self._held_up_at = target
        behind = target + self._lacks_mandatory
        if behind >= scope.total:
            return False
        return source.held(scope.proposal.log).entries_around(scope.sequence.item(behind).seq) is None

    def is_held_up(self, source: Source) -> bool:
        """Whether a payload that we lack, and may not skip, keeps us from sending the item behind it."""
        scope, behind = self._scope, self.target + 1
        if not self._lacks_mandatory or behind >= scope.total:
            return False
        seq, is_payload = scope.sequence.item(behind)
        held = source.held(scope.proposal.log)
        return (held.payloads_around(seq) if is_payload else held.entries_around(seq)) is not None

    def moved(self, step: Step) -> None:
        """A step was sent: the cursor is behind it."""
        last = step.messages[-1]
        if isinstance(last, Metadata):
            self._at.sent.add(step.entry, step.entry)
            if last.is_end:
                self._scope.end_at(step.entry, is_peers=False)
        elif isinstance(last, Raw):
            self._began = step.item
        self._at.index, self._at.offset = step.item, step.offset
        self._at.highest = max(self._at.highest, (step.item, step.offset))

    # -- metadata ----------------------------------------------------------------------------------------------

    def _metadata(self, seq: int, index: int, source: Source) -> Step | None:
        if not self._scope.theirs.takes_metadata():
            return self._notices(index, source)
        kept = self._kept(seq, source)
        if kept is None:
            return None
        entry = kept.entry
        backlink = entry.backlink if has_lipmaalink(seq) and seq - 1 not in self._at.sent else None
        metadata = Metadata(entry.is_end, backlink, entry.size, entry.payload_hash, entry.signature)
        return Step((metadata,), index + 1, entry=seq)

    def _notices(self, index: int, source: Source) -> Step | None:
        """Tell of everything from an index on that is there, where only that is wanted."""
        scope = self._scope
        held = source.held(scope.proposal.log)
        end, most = index, min(scope.total, index + _NOTICES)
        theirs = scope.theirs
        while end < most:
            seq, is_payload = scope.sequence.item(end)
            if (held.payloads_around(seq) if is_payload else held.entries_around(seq)) is None:
                break
            if is_payload and (theirs.least or theirs.greatest < MAX_U64):
                break  # its size is to be looked at
            end += 1
            if end in self._incoming.passed:
                break
        return Step((Notify(end - index),), end) if end > index else None

    # -- payloads ----------------------------------------------------------------------------------------------

    def _payload(self, seq: int, index: int, offset: int, source: Source, room: int, *, greedy: bool) -> Step | None:
        scope, theirs = self._scope, self._scope.theirs
        kept = self._kept(seq, source)
        if kept is None:
            return None
        size = kept.entry.size
        is_lacking = not kept.complete and not source.expects(scope.proposal.log, seq)
        if is_lacking and theirs.may_skip:  # Of what we call too large, the peer would believe that we have it.
            return Step((Skip(Why.NOT_AVAILABLE),), index + 1)
        if not theirs.least <= size <= theirs.greatest:
            return Step((Skip(Why.TOO_SMALL if size < theirs.least else Why.TOO_LARGE),), index + 1)
        if not kept.complete:
            self._lacks_mandatory = is_lacking
            if is_lacking or not greedy or index == self._apologised:
                return None
        if not theirs.takes_payload(size) or not (offset or self._is_known(seq, index)):
            return Step((Notify(1),), index + 1) if kept.complete else None
        return self._bytes(kept, index, offset, source, room)

    def _is_known(self, seq: int, index: int) -> bool:
        """Whether the peer has the metadata that belongs to a payload."""
        if seq in self._at.sent:
            return True
        before = self._scope.sequence.index_of(seq, is_payload=False)
        return before is None or before != index - 1 or before in self._incoming.passed

    def _bytes(self, kept: Kept, index: int, offset: int, source: Source, room: int) -> Step | None:
        incoming, size = self._incoming, kept.entry.size
        # The last byte waits until the hash is checked.
        held = size if kept.complete else min(kept.payload_held, size - 1)
        messages: tuple[DataMessage, ...] = ()
        if incoming.index == index and incoming.offset > offset:  # the peer is ahead in the same payload
            if incoming.offset >= held:
                return None
            messages = (SkipBytes(incoming.offset - offset),)
            offset = incoming.offset
        if offset == size:
            return Step((*messages, Raw(0)), index + 1)
        wanted = min(room, held - offset)
        if wanted <= 0:
            return None
        small = kept.small
        body = source.payload(kept, offset, wanted) if small is None else small[offset : offset + wanted]
        if not body:  # the payload was forgotten since the page was read
            self._pages.clear()
            return None
        messages += (Raw(len(body)),)
        behind = offset + len(body)
        return Step(messages, index + 1, 0, body) if behind == size else Step(messages, index, behind, body)

    def _owes_apology(self, source: Source) -> bool:
        """Whether bytes were sent of a payload that was not checked yet, and that then proved wrong."""
        if self._began != self._at.index or not self._at.offset:
            return False
        seq = self._scope.sequence.item(self._at.index).seq
        kept = self._kept(seq, source)
        return kept is not None and not kept.complete and kept.payload_held < self._at.offset
