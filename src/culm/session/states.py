"""All transitions of a session (docs/specs/culm.md, "States").

A session has two machines that run beside each other. The *phase* is that of the handshake: it goes one way and ends in
``OPEN``. The *round* is that of a discovery, which the caller may begin again and again. In a round exactly one side
has the next word at any time, so two tables suffice: what may be received, and what may be sent. What is in neither is
refused, for the peer as a broken protocol, for ourselves as a mistake.
"""

from enum import Enum, auto

from culm.session.messages import Control, Discovery


class Phase(Enum):
    """Where a side is with the session."""

    UNGREETED = auto()  # the caller: waits for the nonce
    UNPROVED = auto()  # the listener: waits for the caller's proof
    UNWELCOME = auto()  # the caller: waits to be welcome
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
    """Where a side is with the discovery. The caller begins one and leads; the listener answers."""

    IDLE = auto()
    COMPARING = auto()  # caller: our message waits for an answer
    LEADING = auto()  # caller: the next message is ours to send
    ASKING = auto()  # caller: waits for names
    ENDING = auto()  # caller: waits for the end to be confirmed
    ANSWERING = auto()  # listener: the next message is ours to send
    LISTENING = auto()  # listener: waits for the caller's next message
    NAMING = auto()  # listener: names are ours to send
    CLOSING = auto()  # listener: the end is ours to confirm


RECEIVED: dict[tuple[Round, Discovery], Round] = {
    # the caller
    (Round.COMPARING, Discovery.RECONCILE): Round.LEADING,
    (Round.ASKING, Discovery.NAMES): Round.LEADING,
    (Round.ENDING, Discovery.END): Round.IDLE,
    # the listener
    (Round.IDLE, Discovery.RECONCILE): Round.ANSWERING,
    (Round.LISTENING, Discovery.RECONCILE): Round.ANSWERING,
    (Round.LISTENING, Discovery.ASK): Round.NAMING,
    (Round.LISTENING, Discovery.NAMES): Round.LISTENING,
    (Round.LISTENING, Discovery.END): Round.CLOSING,
}
"""What the peer may say on the discovery stream."""

SENT: dict[tuple[Round, Discovery], Round] = {
    # the caller
    (Round.IDLE, Discovery.RECONCILE): Round.COMPARING,
    (Round.LEADING, Discovery.RECONCILE): Round.COMPARING,
    (Round.LEADING, Discovery.ASK): Round.ASKING,
    (Round.LEADING, Discovery.NAMES): Round.LEADING,
    (Round.LEADING, Discovery.END): Round.ENDING,
    # the listener
    (Round.ANSWERING, Discovery.RECONCILE): Round.LISTENING,
    (Round.NAMING, Discovery.NAMES): Round.LISTENING,
    (Round.CLOSING, Discovery.END): Round.IDLE,
}
"""What we may say on it. Where both could begin from ``IDLE``, only the caller does."""
