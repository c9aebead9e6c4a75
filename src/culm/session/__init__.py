"""``culm://``: one secure session for everything (docs/specs/culm.md, "What it promises"). Sans I/O.

TLS proves the listener's identity; what is here runs inside: many streams over one (bymux), on which the caller proves
its identity, both show that they know the clump, tell each other what they want, find out which logs differ, and
fetch what is missing.
"""

from culm.session.connection import Connection
from culm.session.events import Asked, Ended, Established, Event, Named, Reconcile, Refused, Transferred
from culm.session.interests import Interests
from culm.session.limits import Limits
from culm.session.messages import READING, InterestsTold, Offer, Offered, Reading, Settled

__all__ = [
    "READING",
    "Asked",
    "Connection",
    "Ended",
    "Established",
    "Event",
    "Interests",
    "InterestsTold",
    "Limits",
    "Named",
    "Offer",
    "Offered",
    "Reading",
    "Reconcile",
    "Refused",
    "Settled",
    "Transferred",
]
