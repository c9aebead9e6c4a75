"""The life of a proposal, in one table (docs/specs/proposals.md, "State").

Two sides and two channels talk about one proposal, and none waits for another. A diagram of states would have to name
every order in which confirmations, cancellations and markers can cross, and there are dozens. But what may happen next
never depends on the order, only on what was said so far. So the state is the *set* of what was said, and an event is a
rule: it needs some words to have been said, others not to have been said, and adds its own.

A cancellation needs four words: each side cancels on the control channel, and sends a marker on the data channel, to
say that no more data of the proposal comes. When all four were said, the proposal is over and its id is free.
"""

from enum import Enum
from typing import NamedTuple


class Said:
    """What was said of a proposal, by us or by the peer: bits of a number, since they are looked at for every item."""

    NOTHING = 0
    ANSWERED = 1  # by the side that did not propose it
    CONFIRMED = 2
    CANCEL_SENT = 4
    CANCEL_RECEIVED = 8
    MARKER_SENT = 16
    MARKER_RECEIVED = 32


OVER = Said.CANCEL_SENT | Said.CANCEL_RECEIVED | Said.MARKER_SENT | Said.MARKER_RECEIVED


class Rule(NamedTuple):
    """What happens, as a message names it; the words that it needs, those that rule it out, and those that it adds."""

    name: str
    needs: int
    excludes: int
    adds: int


class Event(Enum):
    """What happens to a proposal, and when it is allowed."""

    # Sent for proposals of the peer, received for ours.
    CONFIRM = Rule("a confirmation", Said.NOTHING, Said.CONFIRMED, Said.CONFIRMED)
    # Each of the others is sent by us in its first form, and by the peer in its second.
    ADJUST = Rule("an adjustment", Said.NOTHING, Said.CANCEL_SENT, Said.NOTHING)
    ADJUSTED = Rule("an adjustment", Said.NOTHING, Said.CANCEL_RECEIVED, Said.NOTHING)
    CANCEL = Rule("a cancellation", Said.NOTHING, Said.CANCEL_SENT, Said.CANCEL_SENT)
    CANCELLED = Rule("a cancellation", Said.NOTHING, Said.CANCEL_RECEIVED, Said.CANCEL_RECEIVED)
    MARK = Rule("a marker", Said.CANCEL_SENT, Said.MARKER_SENT, Said.MARKER_SENT)
    MARKED = Rule("a marker", Said.NOTHING, Said.MARKER_RECEIVED, Said.MARKER_RECEIVED)


# What answers a proposal, by whether it is ours: the words of the side that did not make it.
ANSWERS = {
    True: frozenset({Event.CONFIRM, Event.ADJUSTED, Event.CANCELLED}),
    False: frozenset({Event.CONFIRM, Event.CANCEL}),
}


_HAPPENED = {
    Said.CONFIRMED: "was confirmed before",
    Said.CANCEL_SENT: "was cancelled by this side",
    Said.CANCEL_RECEIVED: "was cancelled by the peer before",
    Said.MARKER_SENT: "was ended by a marker of this side",
    Said.MARKER_RECEIVED: "was ended by a marker of the peer before",
}


def refusal(proposal_id: int, event: Event, said: int, *, is_peers: bool) -> str:
    """Why an event may not happen now, as a message."""
    stops = said & event.value.excludes
    why = next((words for bit, words in _HAPPENED.items() if stops & bit), "is not being cancelled")
    who = "the peer sent" if is_peers else "cannot send"
    return f"{who} {event.value.name} for proposal {proposal_id}, but that proposal {why}"
