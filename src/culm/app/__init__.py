"""Culm as a library: a node inside a program. ``docs/library.md`` goes through it task by task.

``Node`` is what a program opens; the parts it is made of stand in ``culm.node``, which has nothing that is promised to
stay as it is.
"""

from culm.app.node import Node, Peer
from culm.app.subscription import Subscription

__all__ = ["Node", "Peer", "Subscription"]
