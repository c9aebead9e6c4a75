"""What two peers hold and want of each other, as far as one of them knows: the bookkeeping of a session.

Bushbaby has no requests and answers, only messages that stand alone. A node that wants to know when it is done has to
draw its own conclusions:

* A HAVE is answered by a WANT, an empty one if nothing is lacking. So when every HAVE sent was answered and nothing is
  left to serve, the peer lacks nothing that we can give.
* A node of ours that serves WANTs keeps its announcements until it has served them all, and then sends a HAVE of what
  it served. So a HAVE of a log that we asked for, after something of it came, says "that is all": what is still missing
  may be asked for again. If nothing came and nothing new is announced, the peer does not have it.
* A peer that announces an entry need not have those below. What we hold of a log is no news to it if it brought all
  that we lacked, or was told.

Pure bookkeeping: no I/O, and the store is asked through the caller's functions.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from culm.errors import RemoteProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from culm.types import Log

    Missing = Callable[[Log, int, int], list[tuple[int, int]]]

Span = tuple[int, int]
MAX_SPANS = 1000  # asked for of one log at once; the rest follows when these have come
MAX_ASKED = 10_000  # spans that one plan asks for


@dataclass(slots=True)
class _Asked:
    """A log that was asked for: up to which number, which spans, how many entries of them did not come from the peer.

    ``came``: something of the log came since.
    """

    high: int
    spans: list[Span] = field(default_factory=list)
    open: int = 0
    came: bool = False

    def add(self, spans: list[Span]) -> None:
        """More was asked for, above the rest. Where there are too many spans, what comes of them is not counted."""
        self.open += _count(spans)
        for low, high in spans:
            if self.spans and self.spans[-1][1] == low - 1:
                self.spans[-1] = self.spans[-1][0], high
            elif len(self.spans) < MAX_SPANS:
                self.spans.append((low, high))

    def takes(self, seq: int) -> None:
        """An entry came."""
        self.came = True
        at = bisect_right(self.spans, seq, key=lambda span: span[0]) - 1
        if at >= 0 and seq <= self.spans[at][1]:
            self.open -= 1


@dataclass(slots=True)
class Ledger:
    """The bookkeeping of one session. ``max_logs`` bounds what a peer may announce.

    ``heard``: the peer has said something about what it holds. ``unavailable``: logs of which the peer turned out not
    to have what it announced. ``told``: how far the peer needs not be told of a log. ``brought_by_others``: logs that
    the peer announced and that came from others in part, so that it may lack that.
    """

    max_logs: int
    heard: bool = False
    peer_has: dict[Log, int] = field(default_factory=dict)
    unavailable: set[Log] = field(default_factory=set)
    told: dict[Log, int] = field(default_factory=dict)
    brought_by_others: set[Log] = field(default_factory=set)
    _asked: dict[Log, _Asked] = field(default_factory=dict)
    _postponed: dict[Log, None] = field(default_factory=dict)
    _haves_unanswered: int = 0

    # -- what we lack ------------------------------------------------------------------------------------------

    def announced(self, log: Log, newest: int) -> None:
        """The peer says that it has a log up to ``newest``: what it did not have of it before, it may have now.

        ``RemoteProtocolError`` if it has too many logs.
        """
        self.shown(log, newest)
        self.unavailable.discard(log)

    def shown(self, log: Log, newest: int) -> None:
        """The peer shows that it has an entry of a log. ``RemoteProtocolError`` as for ``announced``."""
        known = self.peer_has.get(log)
        if known is None and len(self.peer_has) >= self.max_logs:
            raise RemoteProtocolError(f"the peer announces more than {self.max_logs} logs (max_logs)")
        if known is None or newest > known:
            self.peer_has[log] = newest
            self.unavailable.discard(log)

    def plan(self, logs: Iterable[Log], missing: Missing, most: int = MAX_ASKED) -> list[tuple[Log, list[Span]]]:
        """The spans to ask for after the peer announced ``logs``: about ``most``; the other logs are postponed.

        ``missing(log, high, limit)`` gives the first missing spans up to ``high``.
        """
        candidates = dict.fromkeys([*logs, *self._postponed])
        self._postponed = {}
        result: list[tuple[Log, list[Span]]] = []
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

    def _spans(self, log: Log, missing: Missing) -> list[Span]:
        high = self.peer_has.get(log, 0)
        asked = self._asked.get(log)
        if log in self.unavailable or not high:
            return []
        if asked is not None and not asked.came:
            if high > asked.high:  # the announcement and our request crossed: ask for what is new in it
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

    def _end(self, log: Log, spans: list[Span]) -> None:
        """What was asked for of a log has come, from the peer or from others, or will not come: ``spans`` are missing.

        What came from others the peer may lack. What came from nobody is here no more than there.
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
        """An entry came."""
        asked = self._asked.get(log)
        if asked is not None:
            asked.takes(seq)

    def stored(self, logs: Iterable[Log], missing: Missing) -> None:
        """Entries of these logs were stored: strike off those that are complete now."""
        for log in logs:
            asked = self._asked.get(log)
            if asked is not None and not missing(log, asked.high, 1):
                self._end(log, [])

    def unfinished(self) -> list[Log]:
        """Logs of which something came and something is missing, and those postponed: worth asking for again."""
        return [log for log, asked in self._asked.items() if asked.came] + list(self._postponed)

    @property
    def we_lack_nothing(self) -> bool:
        """Whether everything the peer announced is here, or the peer turned out not to have it."""
        return self.heard and not self._asked and not self._postponed

    # -- what the peer lacks -----------------------------------------------------------------------------------

    def tell(self, log: Log, newest: int) -> None:
        """The peer knows what we hold of a log up to ``newest``: it was announced, or all we lacked came from it."""
        self.told[log] = max(newest, self.told.get(log, 0))

    def is_news(self, log: Log, newest: int) -> bool:
        """Whether the peer may not know, or hold, what we have of a log up to ``newest``."""
        if self.peer_has.get(log, 0) < newest:
            return True
        return log not in self._asked and self.told.get(log, 0) < newest

    def have_sent(self, messages: int) -> None:
        """HAVE messages went out; each will be answered by a WANT."""
        self._haves_unanswered += messages

    def want_received(self) -> None:
        """A WANT came."""
        self._haves_unanswered = max(0, self._haves_unanswered - 1)

    @property
    def peer_has_answered(self) -> bool:
        """Whether every HAVE was answered by a WANT."""
        return self._haves_unanswered == 0


def _count(spans: list[Span]) -> int:
    return sum(high - low + 1 for low, high in spans)
