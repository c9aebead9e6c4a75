"""The states of requests, and all transitions between them (docs/specs/intervals.md, "States").

What is absent from a table is refused. A request that is over is in no state: its id is gone from the connection.
"""

from __future__ import annotations

from enum import Enum, auto


class Ours(Enum):
    """States of a request of ours."""

    OPEN = auto()
    CLOSING = auto()  # cancelled or adjusted; the response may still go on
    DEFERRED = auto()  # takes over from another one that has not ended yet
    DEFERRED_CLOSING = auto()  # the same, and cancelled or adjusted already


class OurEvent(Enum):
    """What happens to a request of ours."""

    CANCEL = auto()
    ADJUST = auto()
    RESPONSE = auto()
    RELEASE = auto()  # the one it takes over from has ended
    OVER = auto()


OURS: dict[Ours, dict[OurEvent, Ours | None]] = {
    Ours.OPEN: {
        OurEvent.CANCEL: Ours.CLOSING,
        OurEvent.ADJUST: Ours.CLOSING,
        OurEvent.RESPONSE: Ours.OPEN,
        OurEvent.OVER: None,
    },
    Ours.CLOSING: {
        OurEvent.RESPONSE: Ours.CLOSING,
        OurEvent.OVER: None,
    },
    Ours.DEFERRED: {
        OurEvent.CANCEL: Ours.DEFERRED_CLOSING,
        OurEvent.ADJUST: Ours.DEFERRED_CLOSING,
        OurEvent.RELEASE: Ours.OPEN,
    },
    Ours.DEFERRED_CLOSING: {
        OurEvent.RELEASE: Ours.CLOSING,
    },
}


class Theirs(Enum):
    """States of a request of the peer."""

    UNRESOLVED = auto()  # a bound is relative to payloads, and none is held
    SENDING = auto()
    PAUSED = auto()  # nothing to send until the log changes


class TheirEvent(Enum):
    """What happens to a request of the peer."""

    RESOLVED = auto()
    BLOCKED = auto()
    WOKEN = auto()  # the log changed
    OVER = auto()


THEIRS: dict[Theirs, dict[TheirEvent, Theirs | None]] = {
    Theirs.UNRESOLVED: {
        TheirEvent.RESOLVED: Theirs.SENDING,
        TheirEvent.BLOCKED: Theirs.UNRESOLVED,
        TheirEvent.WOKEN: Theirs.UNRESOLVED,
        TheirEvent.OVER: None,
    },
    Theirs.SENDING: {
        TheirEvent.BLOCKED: Theirs.PAUSED,
        TheirEvent.WOKEN: Theirs.SENDING,
        TheirEvent.OVER: None,
    },
    Theirs.PAUSED: {
        TheirEvent.BLOCKED: Theirs.PAUSED,
        TheirEvent.WOKEN: Theirs.SENDING,
        TheirEvent.OVER: None,
    },
}
