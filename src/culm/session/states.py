"""All transitions of a session (docs/specs/culm.md, "States").

A session has two machines that run beside each other. The *phase* is that of the handshake: it goes one way and ends in
``OPEN``. The *round* is that of a discovery, which the caller may begin again and again. In a round exactly one side
has the next word at any time, and both sides know which one. So one table suffices for both sides, for messages that
they send and that they receive. What is not in a table is refused, for the peer as a broken protocol, for ourselves as
a mistake.
"""

from enum import Enum, auto

from culm.session.messages import Control, Discovery


class Phase(Enum):
    """Where a side is with the session."""

    UNGREETED = auto()  # the caller: waits for the nonce
    UNPROVED = auto()  # the listener: waits for the caller's proof
    UNWELCOME = auto()  # the caller: waits to be welcome
    REFUSED = auto()  # the listener: talks no more to this caller
    OPEN = auto()


CONTROL: dict[tuple[Phase, Control], Phase] = {
    (Phase.UNGREETED, Control.CHALLENGE): Phase.UNWELCOME,
    (Phase.UNPROVED, Control.PROOF): Phase.OPEN,
    (Phase.UNWELCOME, Control.WELCOME): Phase.OPEN,
    (Phase.OPEN, Control.INTERESTS): Phase.OPEN,
    (Phase.OPEN, Control.OFFERS): Phase.OPEN,
    (Phase.OPEN, Control.SETTLED): Phase.OPEN,
}
"""What the peer may say on the control stream, and where that leads."""


class Round(Enum):
    """Where both sides are with the discovery. The caller begins one and leads; the listener answers."""

    IDLE = auto()
    ANSWERING = auto()  # the listener: compares
    LEADING = auto()  # the caller: compares, names, asks, or ends
    NAMING = auto()  # the listener: says what it was asked for
    CLOSING = auto()  # the listener: confirms the end


CALLERS_WORD = {Round.IDLE, Round.LEADING}
"""The rounds in which the caller has the next word; in the others the listener has it."""

DISCOVERY: dict[tuple[Round, Discovery], Round] = {
    (Round.IDLE, Discovery.RECONCILE): Round.ANSWERING,
    (Round.ANSWERING, Discovery.RECONCILE): Round.LEADING,
    (Round.LEADING, Discovery.RECONCILE): Round.ANSWERING,
    (Round.LEADING, Discovery.NAMES): Round.LEADING,
    (Round.LEADING, Discovery.ASK): Round.NAMING,
    (Round.NAMING, Discovery.NAMES): Round.LEADING,
    (Round.LEADING, Discovery.END): Round.CLOSING,
    (Round.CLOSING, Discovery.END): Round.IDLE,
}
"""What the side that has the next word may say on the discovery stream, and where that leads."""
