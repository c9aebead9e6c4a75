"""What a connection tells its owner, besides the entries and payloads it brings (``culm.transfer``)."""

from dataclasses import dataclass

from culm.proposals.messages import Cancel, Proposal
from culm.transfer import EntryReceived, PayloadFailed, PayloadReceived


@dataclass(frozen=True, slots=True)
class Offered:
    """The peer proposes something: confirm or cancel it."""

    proposal: Proposal


@dataclass(frozen=True, slots=True)
class Refused:
    """The peer proposed something that what is held speaks against: it was cancelled, and this was said."""

    proposal: Proposal
    cancel: Cancel


@dataclass(frozen=True, slots=True)
class Dropped:
    """A proposal of ours fell to one of the peer's: it was never made."""

    proposal: Proposal


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The peer confirmed a proposal of ours."""

    id: int


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The peer cancelled a proposal. If there are entries in ``cancel``, they were checked and prove its point."""

    proposal: Proposal
    cancel: Cancel


@dataclass(frozen=True, slots=True)
class Noticed:
    """The peer has ``items`` items that it did not send; ``seq`` is the entry of the last."""

    id: int
    items: int
    seq: int


@dataclass(frozen=True, slots=True)
class Skipped:
    """The peer left out the payload of an entry."""

    id: int
    seq: int
    is_available: bool


@dataclass(frozen=True, slots=True)
class Unverifiable:
    """An entry came that cannot be put together, for want of an entry it links to."""

    id: int
    seq: int


@dataclass(frozen=True, slots=True)
class Lost:
    """What comes of a proposal cannot be followed any more: it was cancelled."""

    id: int


@dataclass(frozen=True, slots=True)
class Freed:
    """A proposal is over, and all state of it gone."""

    proposal: Proposal


Event = (
    EntryReceived
    | PayloadReceived
    | PayloadFailed
    | Offered
    | Refused
    | Dropped
    | Confirmed
    | Cancelled
    | Noticed
    | Skipped
    | Unverifiable
    | Lost
    | Freed
)
