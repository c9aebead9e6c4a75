"""Point-2-Point with proposals (docs/specs/proposals.md). Does no I/O.

``Connection`` is one endpoint over a single stream of bytes, ``Endpoint`` the same over two channels.
"""

from culm.proposals.checks import can_rebuild
from culm.proposals.connection import Connection
from culm.proposals.control import pull_control, push_control
from culm.proposals.data import pull_data, push_data
from culm.proposals.endpoint import Endpoint
from culm.proposals.events import (
    Cancelled,
    Confirmed,
    Dropped,
    Event,
    Freed,
    Lost,
    Noticed,
    Offered,
    Refused,
    Skipped,
    Unverifiable,
)
from culm.proposals.limits import SMALL, Limits
from culm.proposals.messages import EVERYTHING, NOTHING, Adjust, Cancel, Code, Eagerness, Proposal, Wish
from culm.proposals.sequence import Item, Sequence, is_self_contained
from culm.proposals.setup import Modes, Setup
from culm.transfer import EntryReceived, PayloadFailed, PayloadReceived

__all__ = [
    "EVERYTHING",
    "NOTHING",
    "SMALL",
    "Adjust",
    "Cancel",
    "Cancelled",
    "Code",
    "Confirmed",
    "Connection",
    "Dropped",
    "Eagerness",
    "Endpoint",
    "EntryReceived",
    "Event",
    "Freed",
    "Item",
    "Limits",
    "Lost",
    "Modes",
    "Noticed",
    "Offered",
    "PayloadFailed",
    "PayloadReceived",
    "Proposal",
    "Refused",
    "Sequence",
    "Setup",
    "Skipped",
    "Unverifiable",
    "Wish",
    "can_rebuild",
    "is_self_contained",
    "pull_control",
    "pull_data",
    "push_control",
    "push_data",
]
