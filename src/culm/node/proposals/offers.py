"""Offers: what we hold behind a gap of ours, proposed to a peer that wants it.

A proposal is sent in order, and entries cannot be skipped. So a node that holds 1, 4 and 30 to 33 of a log sends a peer
that lacks all of it entry 1, and then waits for entry 2, perhaps for ever. The peer cannot ask for 30 to 33 by
themselves, because it does not know who holds what.

But we know. Where a proposal is held up by an entry that we lack, each run that we hold behind it gets a finite
proposal of its own, which asks for nothing. It begins with the lower certificate pool, as far as the peer may lack it,
so that the peer can verify the run. We hold that pool, because every chain of links from an entry down to the first one
passes it: links do not cross.

What was offered is remembered, so that each entry is offered once in a session. Runs that come later are offered when
they come.

Specification: docs/specs/proposals.md, "What a node proposes".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from culm import proposals
from culm.bamboo import MAX_U64, path
from culm.node.storage.source import StoreSource
from culm.proposals import NOTHING, Code, Endpoint, Proposal
from culm.proposals.exchange import Exchange
from culm.proposals.messages import Wish
from culm.proposals.sequence import outer_seq
from culm.ranges.runs import Runs, runs_of
from culm.types import Log, Run

_AT_ONCE = 16  # Offers made for one log in a row; then other logs have their turn, so that none waits for long.


@dataclass(slots=True)
class _Offered:
    """One log. ``numbers``: of entries that were offered. ``known``: the peer holds it, with its path; 0: no entry."""

    numbers: Runs = field(default_factory=Runs)
    known: int = 0


class Offers:
    """Proposes to one peer what is held behind the places where its proposals are held up."""

    def __init__(self, connection: Endpoint, source: StoreSource) -> None:
        self.todo: deque[Log] = deque()
        self._connection = connection
        self._source = source
        self._logs: dict[Log, _Offered] = {}
        self._open: set[int] = set()

    def handle(self, event: proposals.Event) -> None:
        """Note what became of offers, and which logs need some."""
        match event:
            case proposals.HeldUp(proposal):
                self._queue(proposal.log)
            case proposals.Dropped(proposal) if proposal.id in self._open:
                self._take_back(proposal)
                self._queue(proposal.log)
            case proposals.Cancelled(proposal, proposals.Cancel(code=Code.END_OF_RANGE)) if proposal.id in self._open:
                # The peer has all of it, so later offers need not send what is below.
                offered = self._logs[proposal.log]
                offered.known = max(offered.known, proposal.end or 0)
            case proposals.Freed(proposal):
                self._open.discard(proposal.id)

    def _queue(self, log: Log) -> None:
        if log not in self.todo:
            self.todo.append(log)

    def _take_back(self, proposal: Proposal) -> None:
        """An offer fell to a proposal of the peer that overlaps: it is to be made again."""
        offered, low, high = self._logs[proposal.log], proposal.start, proposal.end or MAX_U64
        rest = [(first, min(last, low - 1)) for first, last in offered.numbers]
        rest += [(max(first, high + 1), last) for first, last in offered.numbers]
        offered.numbers = Runs(run for run in rest if run[0] <= run[1])
        self._open.discard(proposal.id)

    def step(self) -> None:
        """Make offers, as long as there is credit for proposals."""
        for _ in range(len(self.todo)):
            if not self._connection.credit:
                return
            log = self.todo.popleft()
            if not self._offer(log):
                self.todo.append(log)

    def _offer(self, log: Log) -> bool:
        """Offer what is to be offered of a log. False if some of it has to wait."""
        offered = self._logs.get(log) or _Offered()  # Kept with the first offer: a peer can propose any log.
        for number, proposal in enumerate(self._proposals(log, offered)):  # Each behind what those before have offered.
            if number == _AT_ONCE or not self._connection.may_propose(proposal):
                return False
            self._open.add(self._connection.propose(proposal))
            self._logs[log] = offered
            offered.numbers.add(proposal.start, proposal.end or proposal.start)
        return True

    def _proposals(self, log: Log, offered: _Offered) -> Iterator[Proposal]:
        for exchange in list(self._connection.exchanges.values()):
            wish = exchange.theirs.eagerness
            if exchange.proposal.log != log or not exchange.may_send or wish is None or wish.wish is Wish.NOTIFY:
                continue
            target = exchange.outgoing.target
            if target >= exchange.total or exchange.proposal.payload_only or exchange.id in self._open:
                continue
            item = exchange.sequence.item(target)
            stored = self._source.get(log, item.seq)
            if stored is not None and (stored.payload_complete or not item.is_payload):
                continue  # It is not held up: its next item only waits for its turn.
            # The peer proposes behind an entry that it holds; behind which entry we do, does not tell about the peer.
            outer = None if exchange.is_ours else outer_seq(exchange.proposal)
            known = max(offered.known, outer or 0)
            behind = item.seq + item.is_payload  # The entry of a payload that is lacking has come before it.
            for low, high in self._runs(log, exchange, behind, offered.numbers):
                proposal = self._proposal(exchange, low, high, known)
                if proposal is not None:
                    yield proposal

    def _runs(self, log: Log, exchange: Exchange, at: int, offered: Runs) -> Iterator[Run]:
        """The runs from a number on that are held, wanted, and not offered; of a path, runs of its members."""
        # An end that we have lowered is one of what we want, not of what the peer does.
        members, last = exchange.sequence.path, (exchange.end if exchange.is_ours else exchange.proposal.end) or MAX_U64
        held = self._source.held(log)
        at = max(at, exchange.proposal.start)
        if members is not None:
            wanted = [seq for seq in members if seq >= at and seq not in offered]
            yield from runs_of(seq for seq in wanted if held.entries_around(seq) is not None)
            return
        while at <= last:
            if (run := offered.around(at)) is not None:
                at = run[1] + 1
                continue
            found = self._source.page(log, at, ascending=True, limit=1)
            low = found[0].entry.seq if found else MAX_U64
            run = held.entries_around(low)
            if run is None or low > last:
                return
            if low in offered:
                at = low
                continue
            high = min(run[1], last, (offered.above(low) or MAX_U64) - 1)
            yield low, high
            at = high + 1

    def _proposal(self, exchange: Exchange, low: int, high: int, known: int) -> Proposal | None:
        """The proposal of a run: its lower pool reaches down to what the peer holds. None if the store has changed."""
        lower, value = 1, None
        held = set(path(known, 1)) if known else set()
        for above, below in pairwise(path(low, 1)):
            if below in held:
                stored = self._source.get(exchange.proposal.log, below)
                if stored is None:
                    return None
                lower, value = above, stored.entry.hash
                break
        return Proposal(0, *exchange.proposal.log, low, lower, high, high, value, eagerness=NOTHING)
