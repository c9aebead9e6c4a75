"""The ledger of a session: what each of the two peers holds and wants, as far as this side can conclude it.

Bushbaby messages stand alone: there is no number by which an answer refers to a request, and no message "I am done". A
node that has to know when it is done must draw conclusions from what comes, as people on a bad telephone line do. It
relies on three conventions between Culm nodes:

* *A WANT answers each HAVE*, an empty one if nothing is lacking. So when every HAVE that we sent was answered and
  nothing is left to serve, the peer lacks nothing that we can give.
* *A HAVE ends each serving.* A node that is serving WANTs keeps its announcements until it has served all of them, and
  then announces what it served. So a HAVE of a log that we asked for means "that is all". If something of the log had
  come, what is still missing may be asked for again. If nothing had come and the HAVE names no newer entry, the peer
  does not have it: the log is *unavailable* until the peer announces more.
* *Announcing an entry does not promise those below.* A peer may hold entry 12 of a log and not entry 5. So what we hold
  of a log is no news to the peer only if it brought us all that we lacked, or if we have announced it.

For example: the peer announces L up to 12; we hold 1 to 7 and ask for 8 to 12; entries 8 to 12 come from this peer;
then our log is complete to 12, and there is no need to announce L to it. Had 9 come from somebody else meanwhile, the
peer might lack 9 itself, and L is announced.

This is bookkeeping only: no I/O, and the store is asked through a function of the caller.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from culm.errors import RemoteProtocolError
from culm.types import Log, Run

Missing = Callable[[Log, int, int], list[Run]]

MAX_SPANS = 1000
"""Spans of one log that are asked for at once; the rest follows when these have come, so that a log full of holes takes
bounded memory and message size."""
MAX_ASKED = 10_000
"""Spans of all logs in a WANT; the rest is postponed, for the same reason."""


@dataclass(slots=True)
class _Asked:
    """A log that was asked for, and what has come of it from this peer."""

    high: int  # The peer announced the log up to this entry.
    spans: list[Run] = field(default_factory=list)  # What was asked for, ascending.
    open: int = 0  # Entries of the spans that have not come from this peer.
    came: bool = False  # Whether any entry of the log has come since it was asked for.

    def add(self, spans: list[Run]) -> None:
        """Note that more was asked for, above the rest.

        Beyond ``MAX_SPANS`` spans, entries count as asked for and never as come. The peer is then told of the log once
        more than necessary.
        """
        self.open += _count(spans)
        for low, high in spans:
            if self.spans and self.spans[-1][1] == low - 1:
                self.spans[-1] = self.spans[-1][0], high
            elif len(self.spans) < MAX_SPANS:
                self.spans.append((low, high))

    def takes(self, seq: int) -> None:
        """Note that an entry came from this peer."""
        self.came = True
        at = bisect_right(self.spans, seq, key=lambda span: span[0]) - 1
        if at >= 0 and seq <= self.spans[at][1]:
            self.open -= 1


@dataclass(slots=True)
class Ledger:
    """The bookkeeping of one session."""

    max_logs: int
    """Logs that the peer may announce."""
    heard: bool = False
    """Whether the peer has sent a HAVE or entries, so that anything is known of what it holds."""
    peer_has: dict[Log, int] = field(default_factory=dict)
    """The newest entry of each log that the peer has announced or sent."""
    unavailable: set[Log] = field(default_factory=set)
    """Logs that the peer has announced and turned out not to have."""
    told: dict[Log, int] = field(default_factory=dict)
    """The number up to which a log need not be announced to the peer."""
    brought_by_others: set[Log] = field(default_factory=set)
    """Logs that this peer announced while others brought a part. It may lack that part: look at them again."""
    unanswered: int = 0
    """HAVE messages that went out and have had no WANT as an answer."""
    _asked: dict[Log, _Asked] = field(default_factory=dict)
    _postponed: dict[Log, None] = field(default_factory=dict)  # To be asked for with the next WANT.

    # -- what we lack ------------------------------------------------------------------------------------------

    def announced(self, log: Log, newest: int) -> None:
        """The peer announces a log up to ``newest``. It may have now what it did not have before.

        ``RemoteProtocolError`` if it has announced more than ``max_logs``.
        """
        self.shown(log, newest)
        self.unavailable.discard(log)

    def shown(self, log: Log, newest: int) -> None:
        """The peer has sent entry ``newest`` of a log, so it holds it. ``RemoteProtocolError`` as for ``announced``."""
        known = self.peer_has.get(log)
        if known is None and len(self.peer_has) >= self.max_logs:
            raise RemoteProtocolError(f"the peer announces more than {self.max_logs} logs (max_logs)")
        if known is None or newest > known:
            self.peer_has[log] = newest
            self.unavailable.discard(log)

    def plan(self, logs: Iterable[Log], missing: Missing, most: int = MAX_ASKED) -> list[tuple[Log, list[Run]]]:
        """The spans to ask for after the peer announced ``logs``, and those postponed before.

        Once ``most`` spans are reached, the remaining logs are postponed. ``missing(log, high, limit)`` gives the first
        ``limit`` missing spans up to entry ``high``.
        """
        candidates = dict.fromkeys([*logs, *self._postponed])
        self._postponed = {}
        result: list[tuple[Log, list[Run]]] = []
        count = 0
        for log in candidates:
            if count >= most:
                self._postponed[log] = None
                continue
            spans = self._spans(log, missing)
            if spans:
                result.append((log, spans))
                count += len(spans)
        return result

    def _spans(self, log: Log, missing: Missing) -> list[Run]:
        high = self.peer_has.get(log, 0)
        asked = self._asked.get(log)
        if log in self.unavailable or not high:
            return []
        if asked is not None and not asked.came:
            # Nothing has come yet. If a newer entry is announced, the HAVE was sent before our WANT arrived: it ends no
            # serving. Ask for what is new in it, and go on waiting for the rest.
            if high > asked.high:
                below, asked.high = asked.high, high
                spans = [(max(low, below + 1), top) for low, top in missing(log, high, MAX_SPANS) if top > below]
                asked.add(spans)
                return spans
            self._end(log, missing(log, high, MAX_SPANS))
            self.unavailable.add(log)
            return []
        spans = missing(log, high, MAX_SPANS)
        self._end(log, spans)
        if spans:
            asked = self._asked[log] = _Asked(high)
            asked.add(spans)
        return spans

    def _end(self, log: Log, spans: list[Run]) -> None:
        """End the request for a log. ``spans`` are those that are still missing.

        An entry that was asked for and has come from somebody else may be missing at the peer, so the log is announced
        to it. An entry that has come from nobody need not be announced: we lack it, too.
        """
        asked = self._asked.pop(log, None)
        if asked is None:
            return
        last = asked.spans[-1][1]
        if asked.open <= 0:
            self.tell(log, last)
        elif asked.open > _count([(low, min(high, last)) for low, high in spans if low <= last]):
            self.told.pop(log, None)
            self.brought_by_others.add(log)

    def received(self, log: Log, seq: int) -> None:
        """An entry of a log came from the peer."""
        asked = self._asked.get(log)
        if asked is not None:
            asked.takes(seq)

    def stored(self, logs: Iterable[Log], missing: Missing) -> None:
        """Entries of these logs were stored, from this peer or another: end the requests that are complete now."""
        for log in logs:
            asked = self._asked.get(log)
            if asked is not None and not missing(log, asked.high, 1):
                self._end(log, [])

    def give_up(self, missing: Missing) -> None:
        """The peer has been silent for long: it does not have the logs that it announced and sent nothing from."""
        for log in [log for log, asked in self._asked.items() if not asked.came]:
            self._end(log, missing(log, self._asked[log].high, MAX_SPANS))
            self.unavailable.add(log)

    def unfinished(self) -> list[Log]:
        """Logs worth asking for again: something of them came and something is missing, or they were postponed."""
        return [log for log, asked in self._asked.items() if asked.came] + list(self._postponed)

    @property
    def we_lack_nothing(self) -> bool:
        """Whether we hold everything that the peer announced, except for what it turned out not to have."""
        return self.heard and not self._asked and not self._postponed

    # -- what the peer lacks -----------------------------------------------------------------------------------

    def tell(self, log: Log, newest: int) -> None:
        """Note that the peer need not be told of a log up to ``newest``: it was, or it brought all that we lacked."""
        self.told[log] = max(newest, self.told.get(log, 0))

    def is_news(self, log: Log, newest: int) -> bool:
        """Whether the peer may lack, and not know of, something that we hold of a log up to ``newest``."""
        if self.peer_has.get(log, 0) < newest:
            return True
        return log not in self._asked and self.told.get(log, 0) < newest

    def want_received(self) -> None:
        """Note that a WANT came. A peer may send more of them than there were HAVEs."""
        self.unanswered = max(0, self.unanswered - 1)


def _count(spans: list[Run]) -> int:
    return sum(high - low + 1 for low, high in spans)
