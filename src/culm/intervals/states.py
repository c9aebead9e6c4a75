"""The states of requests, and all transitions between them (docs/specs/intervals.md, "States").

What is absent from a table is refused: a peer that does it breaks the protocol, an owner of ours that does it has made
a mistake. A request that is over is in no state, because its id is gone from the connection.

*Our requests.* Between our CANCEL and the peer's END the response still goes on, since both cross on the wire; so a
request that we cancelled or adjusted is *closing*, not gone. An adjustment makes a second request, the successor, which
is *deferred*: nothing may be answered on it while the old response goes on, but we may cancel or adjust it already.

*The peer's requests.* A request waits for its log to change in two states: *unresolved*, while not even its start is
known (it is relative to what is held, and nothing is), and *paused*, while everything that could be sent was sent.
Only requests that are *sending* cost anything (``culm.intervals.turns``).

*Responses*, of either side, are in a phase of their own: the first message of a response tells the requester where a
relative start is, so both ends have to agree on which message is the first.
"""

from enum import Enum, auto


class Phase(Enum):
    """How far a response is, for both of its ends. Its first eager or lazy message leads to the last phase."""

    UNPLACED = auto()  # the start is relative: the first message says its number
    PLACED = auto()  # both ends know the start
    UNDER_WAY = auto()  # there was an eager or lazy message


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
    RESPONSE = auto()  # the peer says anything of it
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
