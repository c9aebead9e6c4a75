"""Point-2-Point with proposals (docs/specs/proposals.md). Does no I/O.

``Connection`` is one endpoint over a single stream of bytes, ``Endpoint`` the same over two channels.
"""

from culm.proposals.checks import can_rebuild
from culm.proposals.connection import Connection
from culm.proposals.endpoint import Endpoint
from culm.proposals.events import (
    Cancelled,
    Dropped,
    Event,
    Freed,
    HeldUp,
    Noticed,
    Offered,
    Refused,
    Rested,
    Skipped,
)
from culm.proposals.limits import SMALL, Limits
from culm.proposals.messages import EVERYTHING, NOTHING, Adjust, Cancel, Code, Eagerness, Proposal, Wish
from culm.proposals.setup import Setup

__all__ = [
    "EVERYTHING",
    "NOTHING",
    "SMALL",
    "Adjust",
    "Cancel",
    "Cancelled",
    "Code",
    "Connection",
    "Dropped",
    "Eagerness",
    "Endpoint",
    "Event",
    "Freed",
    "HeldUp",
    "Limits",
    "Noticed",
    "Offered",
    "Proposal",
    "Refused",
    "Rested",
    "Setup",
    "Skipped",
    "Wish",
    "can_rebuild",
]
