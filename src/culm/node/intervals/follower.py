"""The follower: what to ask a peer for, log by log, as interval requests.

*Rounds.* What to ask for follows from what is missing, and that changes with everything that comes. So each log goes
through rounds: see what is missing (``culm.node.intervals.spans``), ask for it, wait until it has come and is stored,
and look again. A round that finds nothing to ask for is the last one.

*How do we know that everything has come?* The peer answers a request with what it has, and keeps the request open for
what it gets later. Silence may mean "no more" or "a slow disk". So for every missing span there
are two requests. The *lazy* one brings no data; the peer answers at once how many items it has. The *eager* one brings
them. It is like asking the baker how many rolls there are while he hands them over: after the last one nobody has to
stand and wait. Where the peer has offered all of a span, the eager request is enough, since its answer ends by itself:
with thousands of small logs a second one for each would cost the peer half as much again. The end of an open span is
given relative to the newest payload, so that the eager request goes on to bring news for as long as it stays open.

*Questions.* Some things have to be known beside that, for instance the peer's newest payload. They have lazy requests
of their own, with names (``culm.node.intervals.questions``).

For example, we hold 1 to 7 and the peer has 1 to 12. The round asks ``newest`` and ``head``, and sends the two requests
for 8 and up. The peer says "10 items" to the lazy one: 5 entries and 5 payloads. When the tenth item has come, the span
is over. It is stored, the next round finds nothing, and the log is done. The eager request stays open and will bring
entry 13.

Specification: docs/specs/intervals.md, "What a node asks for", "What a node does not use".
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace

from culm import intervals
from culm.bamboo import MAX_U64, Entry, PayloadHasher, path
from culm.intervals import At, FromGreatest, Interval, MetadataOnly, Regular, Single
from culm.intervals.requester import OurRequest
from culm.node.interests.missing import EVERYTHING, least_certificate
from culm.node.interests.policy import Policy
from culm.node.intervals.followed import Content, Followed, FollowOptions, Phase, Span
from culm.node.intervals.questions import Questions
from culm.node.intervals.spans import MOST_SPANS, Missing
from culm.node.storage.source import StoreSource
from culm.ranges import RangeSet
from culm.transfer import EntriesReceived, EntryReceived, PayloadFailed, PayloadReceived
from culm.types import Log

Begun = tuple[Entry, PayloadHasher]
"""An entry whose payload is held in part, and the hash state of that part."""


class Follower:
    """Asks one peer for logs. ``live``: requests without an end stay open when all has come, for news.

    ``worth_asking`` takes out of an interest what this peer has sent wrong.
    """

    def __init__(
        self,
        connection: intervals.Connection,
        source: StoreSource,
        interest: Callable[[Log], RangeSet],
        options: FollowOptions,
        *,
        live: bool,
        claimed: Callable[[Log, int], int] = lambda *_: 0,
        worth_asking: Callable[[Log, RangeSet], RangeSet] = lambda _, ranges: ranges,
    ) -> None:
        self.missing = 0  # Entries that the peer has for us, as far as it has said.
        self.proofs: list[tuple[Entry, ...]] = []  # Entries of fork proofs that came, for the session to take away.
        self.logs: dict[Log, Followed] = {}  # All that are asked for, those that are done included.
        self.todo: deque[Followed] = deque()  # Logs to plan, and logs with planned spans to ask for.
        self._connection = connection
        self._source = source
        self._interest = interest
        self._options = options
        self._missing = Missing(source, options, live=live)
        self._live = live
        self._questions = Questions(connection, source, claimed, self._request, self._drop)
        self._worth_asking = worth_asking
        self._by_id: dict[int, tuple[Followed, Span | None]] = {}  # What each request is about; None: a question.
        self._doubts: dict[int, tuple[Log, int]] = {}  # Entries that may contradict ours, by the request for them.
        self._says_nothing_aloud = False  # Whether the peer has answered a lazy request that it has nothing for.
        self._storing: list[Followed] = []  # Logs whose next round begins once all that came is stored.

    # -- what the session says ---------------------------------------------------------------------------------

    def add(self, logs: Iterable[Log]) -> None:
        """Ask for these logs, too, if anything of them is wanted."""
        for log in logs:
            if log not in self.logs and len(interest := self._interest(log)):
                followed = self.logs[log] = Followed(log, interest)
                self.todo.append(followed)

    def add_offered(
        self, log: Log, ranges: RangeSet, held: RangeSet, doubted: int | None = None, compared: int | None = None
    ) -> None:
        """Ask for ranges of a log, and for an entry that may contradict ours. The peer has offered ``held``.

        ``compared``: the number of an entry that both hold, which the peer is to compare with ours.

        The offer has answered the questions already, so none are asked.
        """
        if log not in self.logs:
            newest = max((item.last for item in ranges), default=0)
            asked = frozenset({"newest", "head"})
            followed = Followed(
                log, ranges, offered=held, newest=newest, were_asked=asked, doubted=doubted, compared=compared
            )
            self.logs[log] = followed
            self.todo.append(followed)

    def doubt(self, log: Log, seq: int, *, confirmed: bool = False) -> None:
        """Ask for the entry of a number at which the peer seems to hold another one than we do.

        ``confirmed``: the peer got our entry and still holds its own. The request names ours then; otherwise the peer
        could answer with an entry that we hold.
        """
        if self._connection.ours.credit and (log, seq) not in self._doubts.values():
            own = self._source.hash_of(log, seq) if confirmed else None
            interval = MetadataOnly(seq, ascending=True, dist=0, own=own)
            self._doubts[self._connection.request(*log, interval, forks=self._forks(log))] = log, seq

    def release(self) -> list[Log]:
        """Stop asking for the logs that are done, and return them."""
        finished = [log for log, followed in self.logs.items() if followed.phase is Phase.DONE]
        for log in finished:
            del self.logs[log]
        return finished

    def had_no_room(self, log: Log) -> None:
        """Something of a log came and was refused. ``reconsider`` asks anew, because it comes only once."""
        if (followed := self.logs.get(log)) is not None:
            followed.had_no_room = True

    def reconsider(self, policy: Policy) -> None:
        """Begin anew with the logs whose interest has changed, or that had no room: their requests are cancelled."""
        self._interest = policy.interest
        for log, followed in list(self.logs.items()):
            wanted = policy.interest(log)
            if not followed.had_no_room and wanted == (followed.whole or followed.interest):
                continue
            for request_id in [at for at, (of, _) in self._by_id.items() if of is followed]:
                self._drop(request_id)
            self.todo = deque(other for other in self.todo if other is not followed)
            self._storing = [other for other in self._storing if other is not followed]
            del self.logs[log]
            self.add([log])

    @property
    def is_done(self) -> bool:
        """Whether everything that the peer has for us has come."""
        return all(followed.phase is Phase.DONE for followed in self.logs.values())

    @property
    def is_storing(self) -> bool:
        """Whether a round of some log begins once all that came is stored."""
        return bool(self._storing)

    def look_again(self) -> None:
        """Everything that came is stored: begin the next rounds."""
        for followed in self._storing:
            followed.phase = Phase.READY
            self.todo.append(followed)
        self._storing = []

    def changed(self, logs: Iterable[Log]) -> None:
        """These logs have changed, perhaps by other peers. A log whose open span was split gets another round."""
        for log in logs:
            followed = self.logs.get(log)
            if followed is None or followed.phase is not Phase.DONE:
                continue
            if any(self._is_split(followed, span) for span in followed.spans):
                followed.phase = Phase.READY
                self.todo.append(followed)

    def lost(self, log: Log, seq: int) -> None:
        """The payload of an entry that was held, or had begun to come, is missing now: look for it in another round."""
        followed = self.logs.get(log)
        if followed is not None:
            followed.again |= {seq}
            if followed.phase is Phase.DONE:
                self._begin_anew(followed)

    def ask_anew(self, logs: Iterable[Log]) -> None:
        """Ask once more for logs that are done: the peer may know more of them by now."""
        for log in logs:
            followed = self.logs.get(log)
            if followed is not None and followed.phase is Phase.DONE:
                self._begin_anew(followed)

    def poll(self) -> None:
        """Ask again for logs without an open request: the peer answers and closes, so that it brings no news."""
        for followed in self.logs.values():
            if followed.phase is Phase.DONE and not any(self._open_request(span.eager) for span in followed.spans):
                self._begin_anew(followed)

    def _begin_anew(self, followed: Followed) -> None:
        """Ask for a log as if nothing had been asked before."""
        followed.exhausted.clear()
        followed.gaps.clear()
        followed.were_asked = frozenset()
        followed.is_compared = False
        self._questions.forget_unsure(followed)
        followed.lowest = 1
        followed.phase = Phase.READY
        self.todo.append(followed)

    def settle(self) -> None:
        """It has been quiet for long. Take lazy requests without an answer as answered with "nothing".

        Not every implementation answers a lazy request that it has nothing for. And a peer may have lost since what it
        has offered. But one that has answered such a request before is only slow.
        """
        for request_id, (followed, span) in list(self._by_id.items()):
            if self._is_owed(followed):
                continue
            if span is None:
                self._questions.over(followed, request_id)
                self._check(followed)
            elif request_id == span.lazy or (span.lazy < 0 and span.announced is None):
                self._answered(followed, span)

    def _is_owed(self, followed: Followed) -> bool:
        """Whether an answer about a log must still come: the peer answers each lazy request whose start is known."""
        lazy = (self._open_request(span.lazy) for span in followed.spans)
        return self._says_nothing_aloud and any(ours is not None and ours.stream is not None for ours in lazy)

    def step(self) -> None:
        """Plan rounds and send requests, as long as there is credit for requests."""
        for _ in range(len(self.todo)):
            if self._connection.ours.credit < 4:  # A round may begin with as many requests at once.
                return
            followed = self.todo.popleft()
            if followed.phase is Phase.READY:
                self._plan(followed)
            while followed.waiting and self._connection.ours.credit >= 2 and self._has_turn(followed):
                self._ask(followed, followed.waiting.pop(0))
            if followed.waiting:
                self.todo.append(followed)
            self._check(followed)

    def _has_turn(self, followed: Followed) -> bool:
        """Whether a further span of a log may be asked for now.

        If the newest entries are to come first, only two spans are open at a time. With more, the peer would answer
        them side by side.
        """
        active = sum(not span.over for span in followed.spans)
        return active < (2 if self._options.newest_first else MOST_SPANS)

    def _open_request(self, request_id: int) -> OurRequest | None:
        """The request of an id, if it is neither over nor cancelled."""
        ours = self._connection.ours.requests.get(request_id)
        return None if ours is None or ours.is_closing else ours

    def _is_split(self, followed: Followed, span: Span) -> bool:
        """Whether entries lie inside a span that waits for something which the peer lacks, from elsewhere or its own.

        The request for such a span would bring what is behind these entries only when the peer has what it lacks. A
        session that began now would ask for the parts on both sides of them one by one.
        """
        ours = self._open_request(span.eager)
        if not span.over or span.descending or ours is None or not ours.next_seq:  # 0: nothing is known of its start.
            return False
        stuck_at, high = ours.next_seq, MAX_U64 if span.high is None else span.high
        if span.is_chain:
            return stuck_at != span.high and self._source.lookup(followed.log).entries_around(stuck_at) is not None
        lacked = max(stuck_at, span.low)
        if (lacked, span.content) in followed.gaps and self._missing.goes_on(followed, lacked, high):
            return True
        if stuck_at < span.low:  # A member of the pool in front. If it is held now, less is to be asked for.
            return self._source.lookup(followed.log).entries_around(stuck_at) is not None
        extent = self._source.lookup(followed.log).payload_extent()
        if extent is None or extent[1] <= stuck_at:  # Nothing came from elsewhere: the usual case, told at no cost.
            return False
        return self._missing.has_holes(followed, replace(span, low=stuck_at))

    # -- planning ----------------------------------------------------------------------------------------------

    def _plan(self, followed: Followed) -> None:
        """Begin a round: ask the questions that are open, and plan the spans to ask for."""
        followed.phase = Phase.ASKING
        followed.whole = followed.whole or followed.interest
        followed.interest = self._worth_asking(followed.log, followed.whole)
        followed.pools.clear()  # What was asked for in the round before has come, or will not come.
        for span in followed.spans:
            is_lost = any(span.covers(seq) for seq in followed.again) and self._open_request(span.eager) is not None
            if is_lost or self._is_split(
                followed, span
            ):  # End the request, and plan its parts as if nothing had been asked.
                at = self._connection.ours.requests[span.eager].next_seq
                followed.exhausted -= {(span.low, span.content), (at, span.content)}
                self._drop(span.eager)
        followed.exhausted = {(at, content) for at, content in followed.exhausted if at not in followed.again}
        followed.again = frozenset()
        followed.spans = [span for span in followed.spans if self._open_request(span.eager)]
        self._questions.ask(followed)
        if followed.newest is None and self._needs_newest(followed):
            if self._may_ask_by_offset(followed):
                followed.waiting.append(Span(1, None, Content(), of_newest=self._options.newest))
            return
        followed.waiting += self._missing.spans(followed, self._interest(followed.log))
        followed.is_last_round = not (followed.waiting or followed.questions)

    def _needs_newest(self, followed: Followed) -> bool:
        """Whether what is wanted depends on the peer's newest entry, so that planning has to wait for it."""
        options = self._options
        open_paths = any(item.sparse and item.is_open for item in followed.interest)
        return options.newest is not None or options.newest_first or open_paths

    def _may_ask_by_offset(self, followed: Followed) -> bool:
        """Whether to ask for the newest entries by their distance from the end, before the end is known.

        That saves a round trip. What is held would come once more, so it is done only for a log without an entry here.
        """
        options = self._options
        if options.newest is None or options.newest < 2 or options.newest_first:  # (0..., 0...) would be descending.
            return False
        is_bounded = options.least_size is not None or options.greatest_size is not None
        lookup = self._source.lookup(followed.log)
        return followed.interest == EVERYTHING and not (is_bounded or followed.spans) and lookup.entry_extent() is None

    # -- asking ------------------------------------------------------------------------------------------------

    def _ask(self, followed: Followed, span: Span) -> None:
        """Send the lazy and the eager request for a span."""
        span.interval, begun = self._interval(followed, span)
        if followed.has_offered(span):
            self.missing += (span.high or 0) - span.low + 1
        else:
            # The lazy response passes payloads of unwanted sizes, so that it counts what is behind them, too.
            span.lazy = self._request(followed, span, span.interval, begun, lazy=True, is_bounded=False)
        span.eager = self._request(followed, span, span.interval, begun, lazy=False)
        followed.spans.append(span)

    def _ask_on(self, followed: Followed, span: Span, passed: int, low: int) -> bool:
        """Go on from a number with a new eager request, after the one before has passed so many items in front of it.

        The lazy answer holds for both. An adjustment cannot do this: it keeps the sizes, at which the response stops.
        """
        if not (isinstance(span.interval, Regular) and span.covers(low) and self._connection.ours.credit):
            return False
        if self._forks(followed.log) is not intervals.Forks.DEFAULT:  # A new request could go along another branch.
            return False
        span.passed += passed
        if not self._live and span.announced is not None and span.passed >= span.announced:
            return False
        span.interval = replace(span.interval, start=At(low, 0))
        span.eager = self._request(followed, span, span.interval, lazy=False)
        self._check_span(followed, span)
        return True

    def _request(
        self,
        followed: Followed,
        span: Span | None,
        interval: Interval,
        begun: Begun | None = None,
        *,
        lazy: bool,
        is_bounded: bool = True,
        forks: intervals.Forks | None = None,
    ) -> int:
        """Send a request for a span, or a question (None); its id. ``is_bounded``: by the sizes of payloads."""
        content = span.content if span is not None and is_bounded else Content()
        request_id = self._connection.request(
            *followed.log,
            interval,
            forks=self._forks(followed.log) if forks is None else forks,
            anchor=self._options.anchor if forks is None else None,  # A question names how to treat forks.
            least_size=content.least_size,
            greatest_size=content.greatest_size,
            payload_offset=None if begun is None else begun[1].size,
            verified=self._options.verified,
            lazy=lazy,
            begun=None if lazy else begun,
        )
        self._by_id[request_id] = followed, span
        return request_id

    def _forks(self, log: Log) -> intervals.Forks:
        """How to treat forks. Of a log that we know to be forked, we ask for what is before the fork."""
        return intervals.Forks.LOCAL if self._source.lookup(log).is_forked else self._options.forks

    def _interval(self, followed: Followed, span: Span) -> tuple[Interval, Begun | None]:
        """The interval of a span, with as much of the certificate pool as is missing.

        Also the entry whose payload goes on first, with the hash state of the bytes that are held; None if the payload
        begins at its first byte.
        """
        source, log = self._source, followed.log
        low, high = span.low, span.high
        if span.of_newest is not None:
            return Regular(FromGreatest(span.of_newest - 1), FromGreatest(0)), None
        if span.is_chain and high is not None:
            return MetadataOnly(low, ascending=True, dist=len(path(high, low)) - 1), None
        dist, outer = self._pool(followed, span)
        if low == high:
            followed.pools.add(low)
        if span.content.metadata_only:
            return MetadataOnly(low, ascending=False, dist=dist, outer=outer), None
        if span.descending and high is not None:
            return Regular(At(high, 0), At(low, dist, outer)) if high > low else Single(low, dist, 0, outer), None
        stored = source.get(log, low)
        begun, own = None, None
        if stored is not None and source.lookup(log).entries_around(low) is not None:
            own, dist, outer = stored.entry.hash, 0, None
            begun = stored.entry, source.ask(lambda store: store.payload_begun(stored))
        if high == low:
            return Single(low, dist, 0, outer, own), begun
        end = FromGreatest(0) if high is None else At(high, 0)
        return Regular(At(low, dist, outer, own), end), begun

    def _pool(self, followed: Followed, span: Span) -> tuple[int, bytes | None]:
        """How many members of the path below a span are missing, and the hash of the first one that is held.

        A member that another span of this round asks for is not asked for again. Its hash is not known yet, so None.
        """
        lookup = self._source.lookup(followed.log)
        least = least_certificate(self._interest(followed.log), span.low)
        members = [member for member in path(span.low, 1)[1:] if member >= least]
        others = [other for other in (*followed.spans, *followed.waiting) if not other.over] if span.is_small else []
        for dist, member in enumerate(members):
            if lookup.entries_around(member) is not None:
                return dist, self._source.hash_of(followed.log, member)
            if member in followed.pools or any(other.covers(member) for other in others):
                return dist, None
            followed.pools.add(member)
        return len(members), None

    # -- what the peer says ------------------------------------------------------------------------------------

    def handle(self, event: intervals.Event) -> None:
        """Note how far each request is, and what the peer has said."""
        match event:
            case EntryReceived(request_id, entry):
                self._progressed(request_id, len(entry.encoded), whole=True, entry=entry)
            case EntriesReceived(request_id):  # Of a request for payloads of any size.
                self._progressed(request_id, event.size, whole=True)
            case PayloadReceived(request_id):
                self._progressed(request_id, len(event.data), whole=event.complete)
            case PayloadFailed(request_id):  # A wrong payload is over, too: it counts as an item.
                self._progressed(request_id, 0, whole=True)
            case intervals.Started(request_id, start):
                self._started(request_id, start)
            case intervals.Announced(request_id, items, trailing) if request_id in self._by_id:
                self._says_nothing_aloud |= not (items or trailing)
                self._announced(request_id, items)
            case intervals.Ended():
                self._ended(event)

    def _announced(self, request_id: int, items: int) -> None:
        followed, span = self._by_id[request_id]
        if request_id == followed.unsure:
            self._questions.has_more(followed)
            if followed.phase is Phase.DONE:
                followed.phase = Phase.READY
                self.todo.append(followed)
        elif span is None:
            self._questions.hear(followed, request_id, items)
            self._check(followed)
        elif request_id == span.lazy:
            self.missing += (items + 1) // 2
            self._answered(followed, span, items)

    def _started(self, request_id: int, start: int) -> None:
        followed, span = self._by_id.get(request_id, (None, None))
        if span is not None:
            span.low = start
        elif followed is not None and request_id in followed.questions:
            followed.started[followed.questions[request_id]] = start

    def _progressed(self, request_id: int, size: int, *, whole: bool, entry: Entry | None = None) -> None:
        """``size`` bytes came for a request. ``whole``: they end an item, which may be the last one of its span."""
        followed, span = self._by_id.get(request_id, (None, None))
        if entry is not None and span is not None and span.content.is_bounded:
            span.newest = entry
        if followed is not None:
            followed.brought += size
            if whole and span is not None:
                self._check_span(followed, span)

    def brought(self, log: Log) -> int:
        """The bytes that have come of a log since it was added; 0 if it is not asked for."""
        followed = self.logs.get(log)
        return 0 if followed is None else followed.brought

    def _answered(self, followed: Followed, span: Span, items: int = 0) -> None:
        """The peer has ``items`` items of a span, as it said: the lazy request is of no more use."""
        span.announced = items
        self._drop(span.lazy)
        span.lazy = -1
        self._check_span(followed, span)

    def _drop(self, request_id: int) -> None:
        """Cancel a request that has served its purpose; nothing happens if it is over."""
        self._by_id.pop(request_id, None)
        if self._open_request(request_id):
            self._connection.ours.cancel(request_id)

    def _check_span(self, followed: Followed, span: Span) -> None:
        """End a span if all that the peer has of it has come."""
        ours = self._connection.ours.requests.get(span.eager)
        if span.over or ours is None or span.announced is None:
            return
        if span.passed + ours.index - ours.begin.at < span.announced:
            return
        span.over = True
        followed.exhaust(span, ours.next_seq)
        if not self._live:
            self._drop(span.eager)
        self._check(followed)

    def _ended(self, event: intervals.Ended) -> None:
        followed, span = self._by_id.pop(event.id, (None, None))
        self._doubts.pop(event.id, None)
        if event.proof:
            self.proofs.append(event.proof)
        if followed is None:  # The request has served its purpose before.
            return
        if span is None:
            self._questions.ended(followed, event)
            self._check(followed)
            return
        if event.id == span.lazy and (followed.fork_seen or not event.proof):
            self._answered(followed, span)
            return
        behind = self._behind(span, event)
        if behind and self._ask_on(followed, span, event.index + 1, behind):
            return
        # If a fork proof came instead of an answer, the eager request ends with one, too.
        self._drop(span.eager)
        self._drop(span.lazy)
        span.lazy, span.over = -1, True
        if event.proof and not followed.fork_seen:
            followed.fork_seen = True  # Do not exhaust the span: the next round asks for what is before the fork.
        else:
            followed.exhaust(span, behind or event.next_seq)
        self._check(followed)

    def _behind(self, span: Span, event: intervals.Ended) -> int:
        """The number to ask on from, if a response stopped at a payload of another size; else 0.

        Also 0 if the lazy response has stopped there, too: then the peer lacks that payload, and has not said what it
        has behind it. The next round asks. Of a live span that is over, nobody waits for what is behind.
        """
        is_told = (span.announced or 0) > span.passed + event.index or (self._live and span.over)
        if event.id != span.eager or event.proof or not is_told:
            return 0
        return span.behind_misfit(event.next_seq)

    def _check(self, followed: Followed) -> None:
        """End the round if all its spans and questions are over."""
        if followed.phase is not Phase.ASKING or followed.waiting or followed.questions:
            return
        if not all(span.over for span in followed.spans):
            return
        if followed.is_last_round and not followed.again:
            followed.phase = Phase.DONE
            if any(span.covers(2) and self._open_request(span.eager) for span in followed.spans):
                # Entry 2 would come by that request. While the question is open, the peer thinks that we wait for more.
                self._questions.forget_unsure(followed)
        else:
            followed.phase = Phase.STORING
            self._storing.append(followed)
