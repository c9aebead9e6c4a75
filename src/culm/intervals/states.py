"""The states of requests (docs/specs/intervals.md, "States").

*Our requests.* Between our CANCEL and the peer's END the response still goes on, since both cross on the wire. So a
request that we cancelled or adjusted is *closing*, not gone. An adjustment makes a second request, the successor, which
is *deferred*: nothing may be answered on it while the old response goes on, but we may cancel or adjust it already. A
request that is over is in no state, because its id is gone. What is absent from the table is refused: a peer that does
it breaks the protocol, an owner of ours that does it has made a mistake.

*The peer's requests* need no state of their own. Whether the start is known is what its stream says, and whether there
is something to send is what the queue of turns says (``culm.intervals.turns``): a request beside the queue is paused.
"""

from enum import Enum, auto


class Ours(Enum):
    """States of a request of ours."""

    OPEN = auto()
    CLOSING = auto()  # cancelled or adjusted; the response may still go on
    DEFERRED = auto()  # takes over from another one that has not ended yet
    DEFERRED_CLOSING = auto()  # the same, and cancelled or adjusted already


class OurEvent(Enum):
    """What happens to a request of ours."""

    CLOSE = auto()  # we cancel or adjust it
    ANSWER = auto()  # the peer says anything of it
    RELEASE = auto()  # the one it takes over from has ended


OURS: dict[tuple[Ours, OurEvent], Ours] = {
    (Ours.OPEN, OurEvent.CLOSE): Ours.CLOSING,
    (Ours.OPEN, OurEvent.ANSWER): Ours.OPEN,
    (Ours.CLOSING, OurEvent.ANSWER): Ours.CLOSING,
    (Ours.DEFERRED, OurEvent.CLOSE): Ours.DEFERRED_CLOSING,
    (Ours.DEFERRED, OurEvent.RELEASE): Ours.OPEN,
    (Ours.DEFERRED_CLOSING, OurEvent.RELEASE): Ours.CLOSING,
}
"""Every transition there is."""
