"""Deliveries: what was sent to a peer that is no Culm node, and whether the peer has stored it.

The deployed peer puts entries into a queue and stores about three a second. It answers each HAVE from its *store*, so
it asks again for entries that wait in its queue, and it throws the queue away when the connection ends. It never
confirms anything. A node that serves whatever it is asked for sends 200 entries 200 times. A node that hangs up when
all is sent leaves the peer with 30 of them. Therefore:

- What was sent is not sent again until the peer has had the time to store it, and some seconds more. That wait
  doubles with each time, and after the third time the peer is taken to refuse these entries.
- While the peer may be storing, it is asked: a HAVE of the log that was sent last, which is stored last. A WANT for
  what it was sent means "not yet", and the question comes again later. Silence means that it has all.
- Some peers may not read the question before they have stored the earlier messages. So silence alone does not prove
  much. A peer that has nothing left to do hangs up, and this is the end worth waiting for.

Times are seconds of the caller's clock. Specification: docs/specs/bushbaby.md, "The deployed peer".
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from culm.ranges.runs import Runs, runs_of
from culm.types import Log, Run

STORED_A_SECOND = 3.0  # Entries; three to four were observed, so this is the cautious end.
HANG_UP_SECONDS = 16.0
"""The deployed peer hangs up after 8 to 14 seconds of silence."""
_WAIT_SECONDS = 5.0  # Until entries may be sent again, beyond the time to store them; and until the first question.
_LONGEST_PAUSE = 60.0  # Between two questions, so that a peer that is faster than we think is not waited for long.
_ANSWER_SECONDS = 3.0  # A WANT comes within a tick of 150 ms; the rest is for slow links.
_MOST_TIMES = 3
_NEVER = float("inf")


@dataclass(slots=True)
class _Sent:
    spans: Runs = field(default_factory=Runs)  # Not to be sent again before ``until``.
    until: float = 0.0
    wait: float = _WAIT_SECONDS
    times: int = 1


class Deliveries:
    """What one peer was sent. ``unconfirmed``: entries sent since it was known to have all."""

    def __init__(self) -> None:
        self.unconfirmed = 0
        self.busy_until = -_NEVER  # When the peer should have stored all that it was sent.
        self.is_taken = True  # Nothing was sent, or the peer did not ask again for what was.
        self._logs: dict[Log, _Sent] = {}
        self._last: Log | None = None
        self._ask_at: float | None = None
        self._asked_at: float | None = None
        self._is_refusing = False  # The peer still asks for what it was sent three times.

    def sent(self, log: Log, seqs: Iterable[int], now: float) -> None:
        """Entries of a log, ascending, are on their way to the peer."""
        sent, count = self._logs.setdefault(log, _Sent()), 0
        for low, high in runs_of(seqs):
            sent.spans.add(low, high)
            count += high - low + 1
        self.busy_until = max(now, self.busy_until) + count / STORED_A_SECOND
        self.unconfirmed += count
        self.is_taken, self._last = False, log
        self._ask_at, self._asked_at = now + _WAIT_SECONDS, None
        sent.until = self.busy_until + sent.wait if sent.times < _MOST_TIMES else _NEVER

    def due(self, log: Log, span: Run, now: float) -> list[Run]:
        """What to send now of a span that the peer asks for."""
        sent = self._logs.get(log)
        if sent is None:
            return [span]
        if now >= sent.until:
            sent.spans, sent.until, sent.wait, sent.times = Runs(), _NEVER, sent.wait * 2, sent.times + 1
        rest = sent.spans.outside(*span)
        if rest != [span]:
            self._is_refusing |= sent.until == _NEVER
            self._asked_at = None
            self._ask_at = now + min(_LONGEST_PAUSE, max(_WAIT_SECONDS, (self.busy_until - now) / 2))
        return rest

    def question(self, now: float) -> Log | None:
        """The log to announce now, to learn whether the peer has stored it; None if it is not time for that."""
        if self._asked_at is not None and now - self._asked_at > _ANSWER_SECONDS:
            self.is_taken = True
        if self._is_refusing:
            self.is_taken = True
        if self.is_taken or self._ask_at is None or now < self._ask_at:
            return None
        self._ask_at, self._asked_at = None, now
        return self._last

    def is_pending(self, now: float) -> bool:
        """Whether the peer may still be storing what it was sent."""
        return bool(self.unconfirmed) and not (self.is_taken and now > self.busy_until)

    def confirm(self) -> None:
        """The peer has hung up, as it does when it has nothing left to do."""
        if self.is_taken and not self._is_refusing:
            self.unconfirmed = 0
