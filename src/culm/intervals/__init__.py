"""Point-2-Point with intervals (docs/specs/intervals.md). Does no I/O.

``Connection`` is one endpoint. It is handed a ``culm.transfer.Source``, from which it answers the peer's requests.
"""

from culm.intervals.connection import Connection
from culm.intervals.events import (
    Announced,
    Doubted,
    Ended,
    EntryDropped,
    Event,
    RequestEnded,
    Started,
)
from culm.intervals.interval import (
    At,
    Forks,
    FromGreatest,
    FromLeast,
    Interval,
    MetadataOnly,
    Regular,
    Request,
    Single,
    SingleOffset,
)
from culm.intervals.limits import Limits
from culm.intervals.messages import Reason
from culm.transfer import EntriesReceived, EntryReceived, PayloadFailed, PayloadReceived

__all__ = [
    "Announced",
    "At",
    "Connection",
    "Doubted",
    "Ended",
    "EntriesReceived",
    "EntryDropped",
    "EntryReceived",
    "Event",
    "Forks",
    "FromGreatest",
    "FromLeast",
    "Interval",
    "Limits",
    "MetadataOnly",
    "PayloadFailed",
    "PayloadReceived",
    "Reason",
    "Regular",
    "Request",
    "RequestEnded",
    "Single",
    "SingleOffset",
    "Started",
]
