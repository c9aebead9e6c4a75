"""What two peers hold and want of each other, as far as one of them knows: the bookkeeping of a session.

Bushbaby has no requests and answers, only messages that stand alone. A node that wants to know when it is done has to
draw its own conclusions:

* A HAVE is answered by a WANT, an empty one if nothing is lacking. So when every HAVE sent was answered and nothing is
  left to serve, the peer lacks nothing that we can give.
* A node of ours that serves WANTs keeps its announcements until it has served them all, and then sends a HAVE of what
  it served. So a HAVE of a log that we asked for, after something of it came, says "that is all": what is still missing
  may be asked for again. If nothing came and nothing new is announced, the peer does not have it.

Pure bookkeeping: no I/O, and the store is asked through the caller's functions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from culm.errors import RemoteProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from culm.store import Log

    Missing = Callable[[Log, int, int], list[tuple[int, int]]]

Span = tuple[int, int]
MAX_SPANS = 1000  # asked for of one log at once; the rest follows when these have come
MAX_ASKED = 10_000  # spans that one plan asks for


@dataclass(slots=True)
class _Asked:
    """A log that was asked for: up to which number, and whether anything of it came since."""

    high: int
    came: bool = False


@dataclass(slots=True)
class Ledger:
    """The bookkeeping of one session. ``max_logs`` bounds what a peer may announce.

    ``heard``: the peer has said something about what it holds. ``unavailable``: logs of which the peer turned out not
    to have what it announced.
    """

    max_logs: int
    heard: bool = False
    peer_has: dict[Log, int] = field(default_factory=dict)
    unavailable: set[Log] = field(default_factory=set)
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
            raise RemoteProtocolError(f"the peer announces more than {self.max_logs} logs")
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
                return [(max(low, below + 1), top) for low, top in missing(log, high, MAX_SPANS) if top > below]
            del self._asked[log]
            self.unavailable.add(log)
            return []
        spans = missing(log, high, MAX_SPANS)
        if spans:
            self._asked[log] = _Asked(high)
        else:
            self._asked.pop(log, None)
        return spans

    def received(self, log: Log) -> None:
        """Something of a log came."""
        asked = self._asked.get(log)
        if asked is not None:
            asked.came = True

    def stored(self, logs: Iterable[Log], missing: Missing) -> None:
        """Entries of these logs were stored: strike off those that are complete now."""
        for log in logs:
            asked = self._asked.get(log)
            if asked is not None and not missing(log, asked.high, 1):
                del self._asked[log]

    def unfinished(self) -> list[Log]:
        """Logs of which something came and something is missing, and those postponed: worth asking for again."""
        return [log for log, asked in self._asked.items() if asked.came] + list(self._postponed)

    @property
    def we_lack_nothing(self) -> bool:
        """Whether everything the peer announced is here, or the peer turned out not to have it."""
        return self.heard and not self._asked and not self._postponed

    # -- what the peer lacks -----------------------------------------------------------------------------------

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
