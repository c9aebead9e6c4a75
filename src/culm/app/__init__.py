"""Culm as a library: a node inside a program. ``docs/library.md`` goes through it task by task.

``Node`` is what a program opens. It is made of the parts in ``culm.node``, which can change from version to version;
import only what this package exports.
"""

from culm.app.node import Node, Peer
from culm.app.peerevents import PeerEvents
from culm.app.subscription import Subscription
from culm.app.syncing import Fetched
from culm.node.held import Holding
from culm.node.intervals.followed import FollowOptions
from culm.node.peerevents import PeerEvent
from culm.node.proposals.options import ProposalOptions

__all__ = [
    "Fetched",
    "FollowOptions",
    "Holding",
    "Node",
    "Peer",
    "PeerEvent",
    "PeerEvents",
    "ProposalOptions",
    "Subscription",
]
