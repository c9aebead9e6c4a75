"""The proposer: what to propose to a peer, log by log, and what to answer to its proposals.

*What a proposal is.* A request asks for something, and data flows one way. A proposal is a deal: "let us exchange what
is behind entry 7 of this log, whose hash is H; I want everything". The peer confirms with what it wants, and both send
what they have behind entry 7. Naming the hash makes a fork show at once, even if neither side has anything new: a peer
that holds another entry 7 objects and shows it.

*What is proposed.* For each log there is one *endless* proposal for everything behind the last entry held. It lives as
long as the session and brings news both ways. Each gap below that gets a proposal of its own, which ends when the gap
is filled (``culm.node.proposals.gaps``). A proposal may begin inside a payload, so that a large one goes on at the byte
reached.

*What is answered.* Most proposals of the peer are confirmed. But a peer that holds entries up to 12 proposes what is
behind 12, and if we hold only 7, that is of no use to us: 8 to 12 are missing. Then, if our own endless proposal begins
at the same entry or below, we refuse the peer's, because ours serves both sides. Otherwise we confirm it and want
nothing. Without that condition both sides could refuse each other for ever.

*What was tried is remembered* (``tried``), because a peer that lacks something would be asked for it in a loop
otherwise. It is tried again when the peer may have more: after ``poll``, after a change of the interests, and when a
proposal that the peer had no resources for can be made again because another one has ended. A range that the peer does
not want to be asked for again (code 128) is not, as long as the session lasts.

*Three proposals ask for nothing* and are made for what the peer objects: at the newest valid entry of a forked log,
so that each side shows its proof; at an entry of ours where the peer says that the log ends and we hold a different
one; and without a start where we hold nothing.

Specification: docs/specs/proposals.md, "What a node proposes".
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, islice

from culm import proposals
from culm.bamboo import MAX_U64, Entry
from culm.node.interests.doubts import lowest_fork
from culm.node.interests.policy import Policy
from culm.node.proposals.gaps import Gap, Gaps
from culm.node.proposals.offers import Offers
from culm.node.proposals.options import ProposalOptions
from culm.node.sessions.witness import Witness
from culm.node.storage.source import StoreSource
from culm.proposals import NOTHING, Code, Proposal
from culm.proposals.sequence import outer_seq
from culm.proposals.states import Said
from culm.ranges import Range, RangeSet
from culm.ranges.text import inclusive_sizes
from culm.store import PayloadState
from culm.types import Log

_AT_ONCE = 16  # Proposals made for one log in a row; then other logs have their turn, so that none waits for long.
_LOOKED_AT = 1024  # Gaps looked at to see whether one begins below a peer's proposal; a log may have very many.
_SKIPPED = 1024  # Skipped payloads of one log that are remembered; of more, the rest is asked for in the next session.
_REFUSED = 1024  # Logs that were refused and are remembered; more come over in the next session, if they are shared.
_MISSING = (PayloadState.ABSENT, PayloadState.PARTIAL)
_FORK = (0, 0)  # Stands in place of a span for a proposal that asks for nothing; no real span begins at 0.


@dataclass(slots=True)
class _Followed:
    """A log that is asked for. A span is the first and the last number of a gap."""

    log: Log
    interest: RangeSet
    tried: set[tuple[int, int]] = field(default_factory=set)  # Spans that were proposed and are not to be again.
    open: dict[int, tuple[int, int]] = field(default_factory=dict)  # Spans of our proposals that live, by their id.
    unnamed: int | None = None  # Our newest entry, if no proposal names it; 0: one does; None: not looked at yet.
    shown: int | None = None  # The lowest number of a fork that this peer knows already.
    end: int | None = None  # The number at which the log ends, as the peer says.
    whole: RangeSet = field(init=False)  # The interest with what is not worth asking for just now.
    skipped: set[int] = field(default_factory=set)  # Entries whose payload the peer lacked when it was their turn. The
    # proposal that skipped them does not come back to them.
    given_up: set[tuple[int, int | None]] = field(default_factory=set)  # Starts and ends of our proposals that the peer
    # does not want to be made again in this session, unless it brings up the log by itself.
    had_no_room: bool = False  # A quota has refused something of it.
    may_skip: bool = False  # The peer would rather cancel than wait for a mandatory payload that it lacks.

    def __post_init__(self) -> None:
        self.whole = self.interest


def _is_along(proposal: Proposal, end: int | None, gap: Gap) -> bool:
    """Whether both ends of a gap are on a proposal's path; then all of the path between them is, too."""
    members = Range(proposal.start, end, sparse=True)
    return end is not None and members.covers(gap.low) and members.covers(gap.high)


@dataclass(eq=False)
class Proposer:
    """Decides what to propose to one peer, and what to answer to it."""

    connection: proposals.Endpoint
    source: StoreSource
    interest: Callable[[Log], RangeSet]
    shares: Callable[[Log], bool]
    options: ProposalOptions
    witness: Witness | None = None
    worth_asking: Callable[[Log, RangeSet], RangeSet] = lambda _, ranges: ranges  # Not for what this peer sent wrong.
    missing: int = 0  # Entries that the peer has for us, as far as it has said.
    proofs: list[tuple[Entry, ...]] = field(default_factory=list)  # Of forks; for the session to take away.
    is_quiet: bool = False  # What was proposed has been answered, and nothing came since for a while.
    is_ending: bool = False  # The session says farewell: the peer's proposals are refused.
    logs: dict[Log, _Followed] = field(default_factory=dict)  # All that are asked for, complete ones included.
    todo: deque[Log] = field(default_factory=deque)  # Logs to plan: ``step`` may have something to say of them.
    ended: list[Log] = field(default_factory=list)  # Logs whose proposal has ended, for ``look_again``.
    put_off: set[tuple[Log, tuple[int, int]]] = field(default_factory=set)  # Spans that the peer had no resources for.
    refused: set[Log] = field(default_factory=set)  # Logs for which we said the same, because they are not shared.

    def __post_init__(self) -> None:
        self.gaps = Gaps(self.source, self.options)
        self.offers = Offers(self.connection, self.source)

    # -- what to ask for ---------------------------------------------------------------------------------------

    @property
    def is_done(self) -> bool:
        """Whether everything was proposed and answered. A gap may stay open, because the peer may never fill it."""
        exchanges = self.connection.exchanges.values()
        is_busy = self.todo or self.ended or self.offers.todo
        return not (is_busy or any(each.is_ours and not each.has(Said.ANSWERED) for each in exchanges))

    def add(self, logs: Iterable[Log]) -> None:
        """Ask for these logs, too, if anything of them is wanted."""
        for log in logs:
            interest = self.interest(log)
            if log not in self.logs and interest:
                self.logs[log] = _Followed(log, interest)
                self.todo.append(log)

    def had_no_room(self, log: Log) -> None:
        """Something of a log came and was refused. ``reconsider`` asks anew, because it comes only once."""
        if (followed := self.logs.get(log)) is not None:
            followed.had_no_room = True

    def reconsider(self, policy: Policy) -> None:
        """Other things are wanted or shared now: take back the proposals for logs whose interest changed.

        And those for logs that had no room: they are proposed anew.
        """
        self.interest, self.shares = policy.interest, policy.shares
        for log in [log for log in self.refused if policy.shares(log)]:
            # The peer must not propose it again, so we have to. If we do not want the log, we name our newest entry.
            self.refused.discard(log)
            self.logs.setdefault(log, _Followed(log, policy.interest(log)))
            self._queue(log)
        for log, followed in list(self.logs.items()):
            wanted = policy.interest(log)
            if followed.had_no_room or wanted != followed.whole:
                followed.had_no_room = False
                followed.interest = followed.whole = wanted
                self._take_back(followed)
                if wanted:
                    self._queue(log)
                else:
                    del self.logs[log]
                    if log in self.todo:
                        self.todo.remove(log)

    def _take_back(self, followed: _Followed) -> None:
        """Cancel our proposals for a log, and tell the peer what we want of its own ones now."""
        connection = self.connection
        followed.tried.clear()
        for exchange in list(connection.exchanges.values()):
            if exchange.proposal.log != followed.log or exchange.has(Said.CANCEL_SENT):
                continue
            if exchange.id in followed.open:
                connection.cancel(exchange.id, Code.RESOURCE_LIMIT)  # The peer may propose it, if it wants our part.
            elif exchange.may_send:
                wish = self.options.eagerness if followed.interest else NOTHING
                connection.adjust(proposals.Adjust(exchange.id, wish))

    def settle(self) -> None:
        """It has been quiet for a while: have the newest entries compared that no proposal names."""
        if not self.is_quiet:
            self.is_quiet = True
            for log, followed in self.logs.items():
                if followed.unnamed:
                    self._queue(log)

    def look_again(self) -> None:
        """Everything that came is stored: plan the logs again whose proposal has ended."""
        for log in self.ended:
            self._queue(log)
        self.ended.clear()

    def lost(self, log: Log, seq: int) -> None:
        """The payload of an entry that was held is missing now, or proved wrong with its beginning: propose it alone.

        The proposal that brought it is past it, as one is that has skipped a payload. It is planned once everything
        that came is stored, because a wrong beginning has to be dropped before.
        """
        if (followed := self.logs.get(log)) is not None:
            followed.skipped.add(seq)
            followed.tried.discard((seq, seq))
            self.ended.append(log)

    def poll(self) -> None:
        """Try again all that was tried, because the peer may have more now."""
        for log, followed in self.logs.items():
            followed.tried.clear()
            self._queue(log)
        self.put_off.clear()

    def _queue(self, log: Log) -> None:
        if log in self.logs and log not in self.todo:
            self.todo.append(log)

    def step(self) -> None:
        """Plan logs and make proposals, as long as there is credit for proposals."""
        for _ in range(len(self.todo)):
            if not self.connection.credit:
                return
            log = self.todo.popleft()
            if not self._plan(self.logs[log]):
                self.todo.append(log)
        self.offers.step()

    def _plan(self, followed: _Followed) -> bool:
        """Propose what is missing of a log. False if some of it has to wait for credit or for other logs."""
        is_complete, log, begun_now = True, followed.log, 0
        followed.interest = self.worth_asking(log, followed.whole)
        skipped = islice(self._skipped(followed), _AT_ONCE)
        again = self._shown_again(log)
        for gap in chain(again, self.gaps.of(log, followed.interest), self._end_told(followed), skipped):
            span = gap.low, gap.high
            if span in followed.tried or (gap not in again and self._is_asked(followed, gap)):
                continue
            found = self.gaps.proposal(log, gap)
            if found is None:
                continue
            if begun_now >= _AT_ONCE:
                is_complete = False
                break
            proposal, begun = found
            if (proposal.start, proposal.end) in followed.given_up:
                continue
            if not self.connection.may_propose(proposal):
                is_complete = False
                continue
            followed.tried.add(span)
            if followed.may_skip:
                proposal = replace(proposal, mandatory=False)
            followed.open[self.connection.propose(proposal, begun)] = span
            begun_now += 1
        if is_complete and followed.unnamed is None:
            followed.unnamed = self._unnamed(followed)
        return self._doubt_end(followed) and self._show_fork(followed) and self._show_newest(followed) and is_complete

    def _shown_again(self, log: Log) -> list[Gap]:
        """Our newest entry, if the peer has to show that it holds it, too (``culm.node.sessions.witness``)."""
        seq = self.witness.asked.get(log) if self.witness is not None else None
        return [] if seq is None else [Gap(seq, seq, Range(seq, seq, payloads=False))]

    def _end_told(self, followed: _Followed) -> Iterator[Gap]:
        """The entry that ends the log, as the peer says, if we do not hold it: without it we need not believe the peer.

        Specification: docs/specs/proposals.md, "Cancellations".
        """
        if followed.end is not None and self.source.lookup(followed.log).entries_around(followed.end) is None:
            yield Gap(followed.end, followed.end, Range(followed.end, followed.end, payloads=False))

    def _doubt_end(self, followed: _Followed) -> bool:
        """If the peer says that the log ends where we hold an entry that does not end it, make the peer show its own.

        A proposal that names the hash of ours does so. False if that has to wait.
        """
        log, seq, source = followed.log, followed.end, self.source
        if seq is None or (seq, seq) in followed.tried or source.lookup(log).entries_around(seq) is None:
            return True
        stored = source.get(log, seq)
        if stored is None or stored.entry.is_end:
            return True
        if not self._compare(followed, stored.entry):
            return False
        followed.tried.add((seq, seq))
        return True

    def _unnamed(self, followed: _Followed) -> int:
        """The number of our newest entry, if no proposal of ours names its hash; 0 otherwise.

        Our endless proposal begins lower where payloads are missing, and there is none if the interest has an end.
        """
        extent = self.source.lookup(followed.log).entry_extent()
        if extent is None:
            return 0
        ours = (self.connection.exchanges.get(proposal_id) for proposal_id in followed.open)
        is_named = any(exchange is not None and outer_seq(exchange.proposal) == extent[1] for exchange in ours)
        return 0 if is_named else extent[1]

    def _show_newest(self, followed: _Followed) -> bool:
        """Have the peer compare its entry with the one that was our newest. False if that has to wait.

        Two nodes that follow different parts of a log meet there, because the pools of these parts end at one number.
        """
        stored = self.source.get(followed.log, followed.unnamed or 0) if self.is_quiet and followed.unnamed else None
        if stored is None:
            return True
        if not self._compare(followed, stored.entry):
            return False
        followed.unnamed = 0
        return True

    def _show_fork(self, followed: _Followed) -> bool:
        """Make both sides show their proofs of a forked log, by a proposal at its newest valid entry.

        Nothing else would make them: nothing is missing there. False if that has to wait.
        """
        log, source = followed.log, self.source
        fork = source.ask(lowest_fork, log)
        if fork is None or fork == followed.shown:
            return True
        if not self._compare(followed, source.newest(log)):
            return False
        followed.shown = fork
        return True

    def _compare(self, followed: _Followed, entry: Entry | None) -> bool:
        """Make a proposal that asks for nothing, to see what the peer objects to ``entry`` (None: to an empty log).

        False if there is no credit for it now.
        """
        if entry is None:
            proposal = Proposal(0, *followed.log, 1, 1, None, None, None, None, NOTHING)
        else:
            proposal = Proposal(0, *followed.log, entry.seq, None, None, None, entry.hash, entry.size, NOTHING)
        if (proposal.start, proposal.end) in followed.given_up:
            return True
        if not self.connection.credit or not self.connection.may_propose(proposal):
            return False
        followed.open[self.connection.propose(proposal)] = _FORK
        return True

    def changed(self, logs: Iterable[Log]) -> None:
        """These logs have changed. Plan those again that have a fork unknown to the peer."""
        for log in logs:
            followed = self.logs.get(log)
            if followed is not None and self.source.ask(lowest_fork, log) not in (None, followed.shown):
                self._queue(log)

    def _skipped(self, followed: _Followed) -> Iterator[Gap]:
        """The payloads that the peer has skipped and that are still missing, each as a gap of its own."""
        newest = self.source.newest(followed.log) if followed.skipped else None
        for seq in sorted(followed.skipped):
            stored = self.source.get(followed.log, seq)
            if stored is None or newest is None or stored.payload_state not in _MISSING:
                followed.skipped.discard(seq)
            elif followed.interest.contains_payload(seq, stored.entry.size, max(seq, newest.seq)):
                yield Gap(seq, seq, Range(seq, seq))

    def _is_asked(self, followed: _Followed, gap: Gap) -> bool:
        """Whether a gap is being filled. A skipped payload is so only by a proposal of its own."""
        if gap.low == gap.high and gap.low in followed.skipped:
            return (gap.low, gap.high) in followed.open.values()
        return self._is_covered(followed.log, gap)

    def _is_covered(self, log: Log, gap: Gap) -> bool:
        """Whether a living proposal, ours or the peer's, fills a gap already."""
        low, high, item, _ = gap
        run = self.source.lookup(log).entries_around(low)
        has_entries = run is not None and high <= run[1]
        for exchange in self.connection.exchanges.values():
            proposal = exchange.proposal
            if proposal.log != log or exchange.said & (Said.CANCEL_SENT | Said.CANCEL_RECEIVED):
                continue
            if exchange.ours.eagerness in (None, NOTHING) or (proposal.payload_only and not has_entries):
                continue
            if item.sparse and {low, high}.issubset(exchange.sequence.upper):
                return True
            if proposal.sparse and not (item.sparse and _is_along(proposal, exchange.end, gap)):
                continue
            # A proposal that begins inside a payload brings only the rest of it. Ours begins where what we hold ends,
            # so that the rest is all we need; the peer's begins where its own part ends.
            is_mid_payload = proposal.lower is None and (proposal.offset or 0) > 0
            rest_is_enough = exchange.begun is not None and exchange.incoming.index == 0
            first = proposal.start + (is_mid_payload and not rest_is_enough)
            # What is behind an end that the peer has lowered is proposed when this proposal is over: the peer holds
            # nothing there yet, and would lower the end of each further proposal, too.
            end = proposal.end if exchange.is_ours else exchange.end
            if first <= low <= (exchange.end or MAX_U64) and high <= (end or MAX_U64):
                return True
        return False

    # -- what the peer says ------------------------------------------------------------------------------------

    def handle(self, event: proposals.Event) -> None:
        """Note what the peer says, and answer it."""
        self.offers.handle(event)
        match event:
            case proposals.Offered(proposal):
                self._note_claim(proposal)
                self._answer(proposal)
            case proposals.Adjust():
                self._adjusted(event)
            case proposals.Refused(proposal):
                self._queue(proposal.log)
            case proposals.Dropped(proposal):
                self._forget(proposal.id, proposal.log, again=True)
            case proposals.Cancelled(proposal, cancel):
                self._cancelled(proposal, cancel)
            case proposals.Freed(proposal):
                self._forget(proposal.id, proposal.log, again=False)
            case proposals.Skipped(proposal_id, seq, False) if proposal_id in self.connection.exchanges:
                followed = self.logs.get(self.connection.exchanges[proposal_id].proposal.log)
                if followed is not None and len(followed.skipped) < _SKIPPED:
                    followed.skipped.add(seq)
                    followed.tried.add((seq, seq))  # Do not ask at once, in vain, but after the next ``poll``.
            case proposals.Noticed():
                self._noticed(event)

    def _noticed(self, event: proposals.Noticed) -> None:
        exchange = self.connection.exchanges.get(event.id)
        if exchange is not None:
            followed = self.logs.get(exchange.proposal.log)
            if followed is None or followed.open.get(event.id) != _FORK:
                self.missing += (event.items + 1) // 2

    def _adjusted(self, event: proposals.Adjust) -> None:
        exchange = self.connection.exchanges.get(event.id)
        if exchange is not None and event.eagerness not in (None, NOTHING):
            self._note_claim(exchange.proposal)

    def _cancelled(self, proposal: Proposal, cancel: proposals.Cancel) -> None:
        if cancel.entries:
            self.proofs.append(self._with_ours(proposal, cancel.entries))
        followed = self.logs.get(proposal.log)
        if followed is None:
            return
        span = followed.open.get(proposal.id)  # None: it is the peer's own proposal.
        match cancel.code:
            case Code.RESOURCE_LIMIT if span is not None:
                self.put_off.add((followed.log, span))
            case Code.DO_NOT_RETRY if span is not None:
                followed.given_up.add((proposal.start, proposal.end))
            case Code.MANDATORY_PAYLOAD if not followed.may_skip:
                followed.may_skip = True
                if span is not None:
                    followed.tried.discard(span)
            case Code.END_OF_LOG:
                followed.end = cancel.seq

    def _note_claim(self, proposal: Proposal) -> None:
        """The peer makes a proposal for all that comes behind an entry, or wants one of ours: it claims to hold that.

        Where it holds less than we do it proposes what is behind less.
        """
        if proposal.end is None and self.witness is not None:
            held = proposal.start - (proposal.offset is None)
            if self.witness.claimed(proposal.log, held):
                self._queue(proposal.log)

    def _with_ours(self, proposal: Proposal, entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
        """The entries of a fork proof: the peer's, with ours of the same number if the peer has shown only one."""
        if len(entries) > 1:
            return entries
        held = self.source.get(proposal.log, entries[0].seq)
        return (held.entry, entries[0]) if held is not None else entries

    def _forget(self, proposal_id: int, log: Log, *, again: bool) -> None:
        followed = self.logs.get(log)
        if followed is None:
            return
        span = followed.open.pop(proposal_id, None)
        if again and span is not None:
            self._try_again(followed, span)
        elif span is not None and (log, span) not in self.put_off:
            self._try_put_off()
        if log not in self.ended:
            self.ended.append(log)

    def _try_put_off(self) -> None:
        """A proposal of ours is over, so the peer may have resources for those that it refused for lack of them."""
        for log, span in self.put_off:
            if (followed := self.logs.get(log)) is not None:
                self._try_again(followed, span)
                self._queue(log)
        self.put_off.clear()

    @staticmethod
    def _try_again(followed: _Followed, span: tuple[int, int]) -> None:
        if span == _FORK:
            followed.shown = followed.unnamed = None
        followed.tried.discard(span)

    def _answer(self, proposal: Proposal) -> None:
        """Confirm a proposal of the peer, saying what we want of it; or refuse it."""
        connection = self.connection
        if not connection.is_offered(proposal.id):
            return
        log = proposal.log
        followed = self.logs.get(log)
        if proposal.end is None and followed is not None:
            followed.given_up.clear()  # A peer that brings up a log by itself does not mind to be asked for it.
        interest = self.interest(log)
        says_nothing = proposal.sparse and proposal.end is None
        if self.is_ending or says_nothing or not (self.shares(log) or interest):
            if not self.is_ending and not says_nothing and len(self.refused) < _REFUSED:
                self.refused.add(log)
            connection.cancel(proposal.id, Code.RESOURCE_LIMIT if self.is_ending else Code.DO_NOT_RETRY)
            return
        if followed is None and not interest and self._is_behind_ours(proposal):
            followed = self.logs[log] = _Followed(log, interest)
            self._queue(log)
        wanted = bool(interest) and not proposal.payload_only and self._wants(interest, proposal)
        if wanted and not proposals.can_rebuild(proposal, self.source):
            if proposal.end is None and (followed is None or self._begins_earlier(followed, proposal)):
                # Our own endless proposal is made instead, and serves both. Once it has ended the peer may try again.
                connection.cancel(proposal.id, Code.RESOURCE_LIMIT)
                if followed is not None:
                    followed.tried.clear()
                self._queue(log)
                return
            wanted = False
        options = self.options
        least, greatest = self._sizes(interest)
        wish, most = options.eagerness if wanted else NOTHING, None if greatest == MAX_U64 else greatest
        # There is nothing to wait for where we want no payloads, or the peer only offers what it has.
        needs_none = NOTHING in (wish, proposal.eagerness) or (followed is not None and followed.may_skip)
        may_skip = needs_none or not options.mandatory
        end = self._narrower_end(interest, proposal) if wanted else None
        connection.confirm(proposals.Adjust(proposal.id, wish, may_skip, end, None, least or None, most))

    def _narrower_end(self, interest: RangeSet, proposal: Proposal) -> int | None:
        """The last entry that is wanted of a range that goes on behind it; None if all of it is of use.

        A range is shared, so what we hold behind that entry would be kept from the peer.
        """
        last = max(item.last for item in interest)
        extent = self.source.lookup(proposal.log).entry_extent()
        goes_on = proposal.end is None or last < proposal.end
        return last if goes_on and last < MAX_U64 and (extent is None or extent[1] <= last) else None

    def _begins_earlier(self, followed: _Followed, proposal: Proposal) -> bool:
        """Whether the endless proposal that we would make begins where the peer's does, or below.

        Without this condition both sides could refuse the other's proposal in favour of their own, for ever.
        """
        gaps = islice(self.gaps.of(followed.log, followed.interest), _LOOKED_AT)
        return any(gap.high == MAX_U64 and gap.low <= proposal.start for gap in gaps)

    def _is_behind_ours(self, proposal: Proposal) -> bool:
        """Whether a proposal names only entries behind all that we hold of its log.

        Where we want no entry of the log, neither side would send anything then, and a fork below would never show.
        """
        extent = self.source.lookup(proposal.log).entry_extent()
        return extent is not None and extent[1] < (outer_seq(proposal) or 0)

    def _sizes(self, interest: RangeSet) -> tuple[int, int]:
        """The least and greatest payload size that any part of an interest wants, within those of the session."""
        sizes = [inclusive_sizes(item) if item.payloads else (0, 0) for item in interest] or [(0, MAX_U64)]
        least = max(min(low for low, _ in sizes), self.options.least_size)
        return least, min(max(high for _, high in sizes), self.options.greatest_size)

    @staticmethod
    def _wants(interest: RangeSet, proposal: Proposal) -> bool:
        """Whether an interest names any number of a proposal."""
        last = MAX_U64 if proposal.end is None else proposal.end
        return any(item.start <= last and (item.is_open or proposal.start <= item.last) for item in interest)
