"""The life of a proposal, in one table (docs/protocols/proposals.md, "State").

What was said of a proposal is a set of words; an event needs some, must come before others, and adds its own. When all
four words of a cancellation were said the proposal is over and its id is free.
"""

from __future__ import annotations

from enum import Enum, Flag, auto
from typing import NamedTuple


class Said(Flag):
    """What was said of a proposal, by us or by the peer."""

    NOTHING = 0
    ANSWERED = auto()  # by whoever did not propose it
    CONFIRMED = auto()
    CANCEL_SENT = auto()
    CANCEL_RECEIVED = auto()
    MARKER_SENT = auto()
    MARKER_RECEIVED = auto()


OVER = Said.CANCEL_SENT | Said.CANCEL_RECEIVED | Said.MARKER_SENT | Said.MARKER_RECEIVED


class Event(Enum):
    """What happens to a proposal."""

    CONFIRM = auto()  # sent for theirs, received for ours
    ADJUST = auto()  # sent by us
    ADJUSTED = auto()  # by the peer
    CANCEL = auto()
    CANCELLED = auto()
    MARK = auto()
    MARKED = auto()


class Rule(NamedTuple):
    """When an event may happen, and what is said then."""

    needs: Said
    before: Said
    adds: Said


RULES = {
    Event.CONFIRM: Rule(Said.NOTHING, Said.CONFIRMED, Said.ANSWERED | Said.CONFIRMED),
    Event.ADJUST: Rule(Said.NOTHING, Said.CANCEL_SENT, Said.NOTHING),
    Event.ADJUSTED: Rule(Said.NOTHING, Said.CANCEL_RECEIVED, Said.NOTHING),
    Event.CANCEL: Rule(Said.NOTHING, Said.CANCEL_SENT, Said.CANCEL_SENT),
    Event.CANCELLED: Rule(Said.NOTHING, Said.CANCEL_RECEIVED, Said.CANCEL_RECEIVED),
    Event.MARK: Rule(Said.CANCEL_SENT, Said.MARKER_SENT, Said.MARKER_SENT),
    Event.MARKED: Rule(Said.NOTHING, Said.MARKER_RECEIVED, Said.MARKER_RECEIVED),
}


def is_allowed(said: Said, event: Event) -> bool:
    """Whether an event may happen now."""
    rule = RULES[event]
    return said & rule.needs == rule.needs and not said & rule.before
