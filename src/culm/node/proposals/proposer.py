"""What to propose to a peer, log by log, and what to answer to its proposals.

For every missing span there is a proposal: an endless one for what is behind everything held, which brings news both
ways for as long as it lives, and one for each gap. A proposal begins behind the last entry that is held, or inside its
payload, and names its hash: so a fork shows even when neither side has news, and payloads go on at the byte reached.

Specification: docs/specs/proposals.md, "What a node proposes".
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TYPE_CHECKING

from culm.bamboo import MAX_U64
from culm.node.proposals.gaps import Gap, Gaps
from culm.proposals import (
    NOTHING,
    Adjust,
    Cancelled,
    Code,
    Dropped,
    Freed,
    Noticed,
    Offered,
    Proposal,
    Refused,
    Skipped,
    can_rebuild,
)
from culm.proposals.states import Said
from culm.ranges import Range
from culm.ranges.text import inclusive_sizes
from culm.store import PayloadState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from culm.bamboo import Entry
    from culm.node.proposals.options import ProposalOptions
    from culm.node.storage.source import StoreSource
    from culm.proposals import Endpoint, Event
    from culm.ranges import RangeSet
    from culm.types import Log

_AT_ONCE = 16  # proposals of one log
_LOOKED_AT = 1024  # gaps, to see whether one of them begins below a proposal of the peer
_SKIPPED = 1024  # payloads of one log that are asked for again; of more, in the next session
_MISSING = (PayloadState.ABSENT, PayloadState.PARTIAL)
_FORK = (0, 0)  # in place of a span: a proposal that shows a fork


@dataclass(slots=True)
class _Followed:
    """A log that is asked for. ``tried``: spans that were proposed and are not to be again; ``open``: proposals.

    ``shown``: the position of the fork that the peer was shown, or showed us. ``end``: where the log ends, as the peer
    says. ``skipped``: entries whose payload the peer did not have when it was their turn, and which a proposal that
    lives does not bring any more.
    """

    log: Log
    interest: RangeSet
    tried: set[tuple[int, int]] = field(default_factory=set)
    open: dict[int, tuple[int, int]] = field(default_factory=dict)
    shown: int | None = None
    end: int | None = None
    skipped: set[int] = field(default_factory=set)
    given_up: bool = False  # the peer wants nothing of it


def _is_along(proposal: Proposal, end: int | None, gap: Gap) -> bool:
    """Whether both ends of a gap are on the path of a proposal; then all of the path between them is."""
    members = Range(proposal.start, end, sparse=True)
    return end is not None and members.covers(gap.low) and members.covers(gap.high)


class Proposer:
    """Proposes to one peer. ``live``: what is endless stays, for news."""

    def __init__(
        self,
        connection: Endpoint,
        source: StoreSource,
        interest: Callable[[Log], RangeSet],
        shares: Callable[[Log], bool],
        options: ProposalOptions,
    ) -> None:
        self.missing = 0  # entries that the peer told us of
        self.proofs: list[tuple[Entry, ...]] = []  # entries of fork proofs, for the session to take
        self.notices: dict[Log, int] = {}  # entries of each log that the peer has and did not send
        self._connection = connection
        self._source = source
        self._interest = interest
        self._shares = shares
        self.options = options
        self._gaps = Gaps(source, options)
        self.is_ending = False  # nothing more is begun
        self._logs: dict[Log, _Followed] = {}
        self._todo: deque[Log] = deque()
        self._ended: list[Log] = []  # logs of which a proposal ended: to be looked at again once all is stored
        self._put_off: set[tuple[Log, tuple[int, int]]] = set()  # spans for which the peer had no room

    # -- what to ask for ---------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """How many logs are asked for."""
        return len(self._logs)

    @property
    def needs_storing(self) -> bool:
        """Whether logs wait to be looked at again once everything that came is stored."""
        return bool(self._ended)

    @property
    def has_work(self) -> bool:
        """Whether ``step`` may have something to say."""
        return bool(self._todo)

    @property
    def is_done(self) -> bool:
        """Whether everything was asked for, and answered."""
        if self._todo or self._ended:
            return False
        return not any(
            exchange.is_ours and (not exchange.has(Said.ANSWERED) or (exchange.end is not None and exchange.may_send))
            for exchange in self._connection.exchanges.values()
        )

    def add(self, logs: Iterable[Log]) -> None:
        """Ask for these logs, too."""
        for log in logs:
            interest = self._interest(log)
            if log not in self._logs and interest:
                self._logs[log] = _Followed(log, interest)
                self._todo.append(log)

    def reconsider(self, interest: Callable[[Log], RangeSet], shares: Callable[[Log], bool]) -> None:
        """The interests have changed: take back what is not wanted any more, and ask for what is."""
        self._interest, self._shares = interest, shares
        for log, followed in list(self._logs.items()):
            wanted = interest(log)
            if wanted != followed.interest:
                followed.interest = wanted
                self._take_back(followed)
                if wanted:
                    self._queue(log)
                else:
                    del self._logs[log]
                    if log in self._todo:
                        self._todo.remove(log)

    def _take_back(self, followed: _Followed) -> None:
        """Cancel our proposals for a log, and change what we want of the peer's."""
        connection = self._connection
        followed.tried.clear()
        for exchange in list(connection.exchanges.values()):
            if exchange.proposal.log != followed.log or exchange.has(Said.CANCEL_SENT):
                continue
            if exchange.is_ours:
                connection.cancel(exchange.id)
            elif exchange.may_send:
                connection.adjust(Adjust(exchange.id, self.options.eagerness if followed.interest else NOTHING))

    def look_again(self) -> None:
        """Everything that came is stored: see what is still missing."""
        for log in self._ended:
            self._queue(log)
        self._ended.clear()

    def poll(self) -> None:
        """Ask again for what the peer did not have."""
        for log, followed in self._logs.items():
            followed.tried.clear()
            self._queue(log)
        self._put_off.clear()

    def _queue(self, log: Log) -> None:
        if log in self._logs and log not in self._todo:
            self._todo.append(log)

    def step(self) -> None:
        """Propose as much as there is credit for."""
        for _ in range(len(self._todo)):
            if not self._connection.credit:
                return
            log = self._todo.popleft()
            if not self._plan(self._logs[log]):
                self._todo.append(log)

    def _plan(self, followed: _Followed) -> bool:
        """Propose what is missing of a log. False if some of it has to wait."""
        if followed.given_up:
            return True
        is_complete, log, begun_now = True, followed.log, 0
        skipped = islice(self._skipped(followed), _AT_ONCE)
        for gap in chain(self._gaps.of(log, followed.interest), self._end_told(followed), skipped):
            span = gap.low, gap.high
            if span in followed.tried or self._is_asked(followed, gap):
                continue
            found = self._gaps.proposal(log, gap)
            if found is None:
                continue
            if begun_now >= _AT_ONCE:  # other logs have their turn
                is_complete = False
                break
            proposal, begun = found
            if not self._connection.may_propose(proposal):
                is_complete = False
                continue
            followed.tried.add(span)
            followed.open[self._connection.propose(proposal, begun)] = span
            begun_now += 1
        return self._doubt_end(followed) and self._show_fork(followed) and is_complete

    def _end_told(self, followed: _Followed) -> Iterator[Gap]:
        """The entry that ends the log, as the peer says, if it is not held: it is to be seen.

        Specification: docs/specs/proposals.md, "Cancellations".
        """
        if followed.end is not None and self._source.lookup(followed.log).entries_around(followed.end) is None:
            yield Gap(followed.end, followed.end, Range(followed.end, followed.end, payloads=False))

    def _doubt_end(self, followed: _Followed) -> bool:
        """Propose what is behind an entry of ours that does not end the log, where the peer says it ends.

        The peer shows its own entry then. False if that has to wait.
        """
        log, seq, source = followed.log, followed.end, self._source
        if seq is None or (seq, seq) in followed.tried or source.lookup(log).entries_around(seq) is None:
            return True
        stored = source.get(log, seq)
        if stored is None or stored.entry.is_end:
            return True
        if not self._compare(followed, stored.entry):
            return False
        followed.tried.add((seq, seq))
        return True

    def _show_fork(self, followed: _Followed) -> bool:
        """Propose what is behind the newest valid entry of a forked log: each side then shows the proof that it has.

        Nothing is missing there, so that nothing else would. False if that has to wait.
        """
        log, source = followed.log, self._source
        fork = source.lowest_fork(log)
        if fork is None or fork == followed.shown:
            return True
        if not self._compare(followed, source.newest(log)):
            return False
        followed.shown = fork
        return True

    def _compare(self, followed: _Followed, entry: Entry | None) -> bool:
        """Propose what is behind an entry, or everything, only to see what the peer objects. False if it cannot be."""
        if entry is None:
            proposal = Proposal(0, *followed.log, 1, 1, None, None, None, None, NOTHING)
        else:
            proposal = Proposal(0, *followed.log, entry.seq, None, None, None, entry.hash, entry.size, NOTHING)
        if not self._connection.credit or not self._connection.may_propose(proposal):
            return False
        followed.open[self._connection.propose(proposal)] = _FORK
        return True

    def changed(self, logs: Iterable[Log]) -> None:
        """These logs have changed: of those that are forked now, or at a lower place, the peer is to know."""
        for log in logs:
            followed = self._logs.get(log)
            if followed is not None and self._source.lowest_fork(log) not in (None, followed.shown):
                self._queue(log)

    def _skipped(self, followed: _Followed) -> Iterator[Gap]:
        """The payloads that were skipped and are still missing, each a gap of its own."""
        newest = self._source.newest(followed.log) if followed.skipped else None
        for seq in sorted(followed.skipped):
            stored = self._source.get(followed.log, seq)
            if stored is None or newest is None or stored.payload_state not in _MISSING:
                followed.skipped.discard(seq)
            elif followed.interest.contains_payload(seq, stored.entry.size, max(seq, newest.seq)):
                yield Gap(seq, seq, Range(seq, seq))

    def _is_asked(self, followed: _Followed, gap: Gap) -> bool:
        """Whether a gap is being filled. A payload that was skipped comes only if it is asked for on its own."""
        if gap.low == gap.high and gap.low in followed.skipped:
            return (gap.low, gap.high) in followed.open.values()
        return self._is_covered(followed.log, gap)

    def _is_covered(self, log: Log, gap: Gap) -> bool:
        """Whether a proposal that lives fills a gap already."""
        low, high, item = gap
        run = self._source.lookup(log).entries_around(low)
        has_entries = run is not None and high <= run[1]
        for exchange in self._connection.exchanges.values():
            proposal = exchange.proposal
            if proposal.log != log or exchange.said & (Said.CANCEL_SENT | Said.CANCEL_RECEIVED):
                continue
            if exchange.ours.eagerness in (None, NOTHING) or (proposal.payload_only and not has_entries):
                continue
            if proposal.sparse and not (item.sparse and _is_along(proposal, exchange.end, gap)):
                continue
            # A proposal that begins inside a payload brings only the rest of it. Ours begins where what we hold ends,
            # so that the rest is all we need; the peer's begins where its own part ends.
            is_mid_payload = proposal.lower is None and (proposal.offset or 0) > 0
            rest_is_enough = exchange.begun is not None and exchange.incoming.index == 0
            first = proposal.start + (is_mid_payload and not rest_is_enough)
            if first <= low and (exchange.end is None or high <= exchange.end):
                return True
        return False

    # -- what the peer says ------------------------------------------------------------------------------------

    def handle(self, event: Event) -> None:
        """Take notice of what came, and answer it."""
        match event:
            case Offered(proposal):
                self._answer(proposal)
            case Refused(proposal):
                self._queue(proposal.log)
            case Dropped(proposal):
                self._forget(proposal.id, proposal.log, again=True)
            case Cancelled():
                self._cancelled(event)
            case Freed(proposal_id, proposal):
                self._forget(proposal_id, proposal.log, again=False)
            case Skipped(proposal_id, seq, False) if proposal_id in self._connection.exchanges:
                followed = self._logs.get(self._connection.exchanges[proposal_id].proposal.log)
                if followed is not None and len(followed.skipped) < _SKIPPED:
                    followed.skipped.add(seq)
                    followed.tried.add((seq, seq))  # not at once, but when we ask again
            case Noticed(proposal_id, items) if proposal_id in self._connection.exchanges:
                log = self._connection.exchanges[proposal_id].proposal.log
                if log in self._logs and self._logs[log].open.get(proposal_id) == _FORK:
                    return
                self.notices[log] = self.notices.get(log, 0) + items
                self.missing += (items + 1) // 2
            case _:
                pass

    def _cancelled(self, event: Cancelled) -> None:
        if event.entries:
            self.proofs.append(self._with_ours(event.proposal, event.entries))
        followed = self._logs.get(event.proposal.log)
        if followed is not None and event.cancel.code is Code.RESOURCE_LIMIT and event.id in followed.open:
            self._put_off.add((followed.log, followed.open[event.id]))
        if followed is not None and event.cancel.code is Code.END_OF_LOG:
            followed.end = event.cancel.seq

    def _with_ours(self, proposal: Proposal, entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
        """A fork proof of an entry the peer showed, and ours of the same number."""
        if len(entries) > 1:
            return entries
        held = self._source.get(proposal.log, entries[0].seq)
        return (held.entry, entries[0]) if held is not None else entries

    def _forget(self, proposal_id: int, log: Log, *, again: bool) -> None:
        followed = self._logs.get(log)
        if followed is None:
            return
        span = followed.open.pop(proposal_id, None)
        if again and span is not None:
            self._try_again(followed, span)
        elif span is not None and (log, span) not in self._put_off:
            self._try_put_off()
        if log not in self._ended:
            self._ended.append(log)

    def _try_put_off(self) -> None:
        """A proposal of ours is over: the peer may have room for those that it had none for."""
        for log, span in self._put_off:
            if (followed := self._logs.get(log)) is not None:
                self._try_again(followed, span)
                self._queue(log)
        self._put_off.clear()

    @staticmethod
    def _try_again(followed: _Followed, span: tuple[int, int]) -> None:
        if span == _FORK:
            followed.shown = None
        followed.tried.discard(span)

    def _answer(self, proposal: Proposal) -> None:
        """Confirm what the peer proposes, saying what we want of it; or refuse it."""
        connection = self._connection
        if not connection.is_offered(proposal.id):
            return
        log = proposal.log
        interest = self._interest(log)
        says_nothing = proposal.sparse and proposal.end is None
        if self.is_ending or says_nothing or not (self._shares(log) or interest):
            connection.cancel(proposal.id)
            return
        wanted = bool(interest) and not proposal.payload_only and self._wants(interest, proposal)
        if wanted and not can_rebuild(proposal, self._source):
            followed = self._logs.get(log)
            if proposal.end is None and (followed is None or self._begins_earlier(followed, proposal)):
                connection.cancel(proposal.id)  # ours serves both
                if followed is not None:
                    followed.tried.clear()
                self._queue(log)
                return
            wanted = False
        options = self.options
        least, greatest = self._sizes(interest)
        connection.confirm(
            proposal.id,
            options.eagerness if wanted else NOTHING,
            least=least or None,
            greatest=None if greatest == MAX_U64 else greatest,
            may_skip=not options.mandatory,
        )

    def _begins_earlier(self, followed: _Followed, proposal: Proposal) -> bool:
        """Whether what we would propose begins where the peer's does, or below.

        If neither side's did, each would refuse the other's for its own for ever.
        """
        gaps = islice(self._gaps.of(followed.log, followed.interest), _LOOKED_AT)
        return any(gap.high == MAX_U64 and gap.low <= proposal.start for gap in gaps)

    def _sizes(self, interest: RangeSet) -> tuple[int, int]:
        """The sizes of payloads that anything in an interest asks for: the widest, and those of the session."""
        sizes = [inclusive_sizes(item) if item.payloads else (0, 0) for item in interest] or [(0, MAX_U64)]
        least = max(min(low for low, _ in sizes), self.options.least_size)
        return least, min(max(high for _, high in sizes), self.options.greatest_size)

    @staticmethod
    def _wants(interest: RangeSet, proposal: Proposal) -> bool:
        """Whether entries of a proposal are of interest."""
        last = MAX_U64 if proposal.end is None else proposal.end
        return any(item.start <= last and (item.is_open or proposal.start <= item.last) for item in interest)
