"""What a connection tells its owner, besides the entries and payloads it brings (``culm.transfer``).

``Adjust`` is the peer's own message: it confirms a proposal of ours.
"""

from dataclasses import dataclass

from culm.proposals.messages import Adjust, Cancel, Proposal
from culm.transfer import EntriesReceived, EntryReceived, PayloadFailed, PayloadReceived


@dataclass(frozen=True)
class _AboutProposal:
    proposal: Proposal


class Offered(_AboutProposal):
    """The peer proposes something: confirm or cancel it."""


class Refused(_AboutProposal):
    """The peer proposed something that what is held speaks against: it was cancelled."""


class Dropped(_AboutProposal):
    """A proposal of ours fell to one of the peer's: it was never made."""


class HeldUp(_AboutProposal):
    """We lack the entry that the peer wants next of a proposal, and so cannot send what is behind it.

    A payload that we lack and that the peer does not let us skip may stand before that entry.
    """


class Freed(_AboutProposal):
    """A proposal is over, and all state of it gone."""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The peer cancelled a proposal. If there are entries in ``cancel``, they were checked and prove its point."""

    proposal: Proposal
    cancel: Cancel


@dataclass(frozen=True, slots=True)
class Noticed:
    """The peer has ``items`` items that it did not send."""

    id: int
    items: int


@dataclass(frozen=True, slots=True)
class Skipped:
    """The peer left out the payload of an entry."""

    id: int
    seq: int
    is_available: bool


@dataclass(frozen=True, slots=True)
class Rested:
    """The peer has sent all that it has for the proposals so far, and says so (``Connection.rest``)."""


Event = (
    EntryReceived
    | EntriesReceived
    | PayloadReceived
    | PayloadFailed
    | Offered
    | Refused
    | Dropped
    | Adjust
    | Cancelled
    | Noticed
    | Skipped
    | HeldUp
    | Freed
    | Rested
)
