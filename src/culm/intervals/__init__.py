"""Point-2-Point with intervals (docs/specs/intervals.md). Does no I/O.

``Connection`` is one endpoint. ``plan`` is the response planner on its own.
"""

from culm.intervals.connection import Connection
from culm.intervals.events import (
    Announced,
    Doubted,
    Ended,
    EntryDropped,
    Event,
    Requested,
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
from culm.intervals.planner import Plan, Stop, plan
from culm.transfer import EntryReceived, HeldLog, Kept, PayloadFailed, PayloadReceived, Source

__all__ = [
    "Announced",
    "At",
    "Connection",
    "Doubted",
    "Ended",
    "EntryDropped",
    "EntryReceived",
    "Event",
    "Forks",
    "FromGreatest",
    "FromLeast",
    "HeldLog",
    "Interval",
    "Kept",
    "Limits",
    "MetadataOnly",
    "PayloadFailed",
    "PayloadReceived",
    "Plan",
    "Reason",
    "Regular",
    "Request",
    "RequestEnded",
    "Requested",
    "Single",
    "SingleOffset",
    "Source",
    "Started",
    "Stop",
    "plan",
]
