"""What a session's connection tells its owner, beside the control messages that are events themselves."""

from dataclasses import dataclass

from culm.session.messages import InterestsTold, Offer, Offered, Reading, Settled


@dataclass(frozen=True, slots=True)
class Established:
    """Both sides have proved themselves. ``peer`` is the other side's identity (32 bytes)."""

    peer: bytes


@dataclass(frozen=True, slots=True)
class Refused:
    """The caller has proved its key, and we refuse it, for so many ``seconds``; infinite: as long as it is not allowed.

    Close the connection when what there is to send is sent: it tells the caller how long a penalty runs.
    """

    seconds: float


@dataclass(frozen=True, slots=True)
class Reconcile:
    """A negentropy message of the running discovery; ``first``: it begins one."""

    message: bytes
    first: bool


@dataclass(frozen=True, slots=True)
class Asked:
    """The peer asks for the names behind these heads (32 bytes each); ``Connection.name`` answers."""

    heads: list[bytes]


@dataclass(frozen=True, slots=True)
class Named:
    """Logs that differ, as the peer has them."""

    offers: list[Offer]


@dataclass(frozen=True, slots=True)
class Ended:
    """The discovery is over: all that differed was named. To the side that answers: ``end_round`` confirms it."""

    round: int


@dataclass(frozen=True, slots=True)
class Transferred:
    """Bytes of the interval protocol; ``Connection.consumed`` says when they are dealt with."""

    data: bytes


Event = (
    Established
    | Refused
    | InterestsTold
    | Offered
    | Settled
    | Reading
    | Reconcile
    | Asked
    | Named
    | Ended
    | Transferred
)
