"""Relaying interests: a node between others asks upstream for what its peers want, and not only for what it follows.

A station follows its own logs; behind it is a phone that wants another one. Without a relay the phone gets no entry of
that log, because the station never asks for it. A node with the setting ``relay`` asks for the *union*: its own
interests and those of its peers, merged as bytes (``culm.ranges.union``).

A peer is never told its own interest back. Otherwise two relays would each want a log because the other one does, and
go on so after the phone has left. Relays in a ring still do that, until one of their connections ends.

Only ``culm://`` peers tell interests; the union counts in all protocols. Authors who are not admitted stay out.

Specification: docs/specs/culm.md, "Relays".
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from culm.errors import EncodingError, RemoteProtocolError
from culm.node.interests.policy import Policy
from culm.ranges import RangeSet
from culm.ranges.union import ranges_in, union_of
from culm.session import Interests
from culm.session.interests import Key

MOST_RANGES = 64
"""Ranges of one log, or author, that are told upstream: a receiver looks at all of them again and again."""
MOST_KEYS = 9_000
"""Logs and authors that are asked for. A Culm node takes 10,000 interests, and the node's own authors count, too."""

_Encoded = Mapping[Key, list[bytes]]


class Relay:
    """What the operator and each peer want, as encoded ranges.

    ``changed`` is called when a peer wants something else. Peers are named by any object that stands for one session.
    """

    def __init__(self, policy: Policy, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._told: dict[object, _Encoded] = {}
        self.change_policy(policy)

    def change_policy(self, policy: Policy) -> None:
        """The operator wants something else."""
        self._policy = policy
        self._own: _Encoded = {
            (key,) if isinstance(key, bytes) else key: ranges_in(ranges)
            for key, ranges in (policy.interests or {}).items()
        }
        self._total: dict[Key, RangeSet] = {}

    def hear(self, peer: object, interests: Interests) -> None:
        """A peer has told its interests, all of them. ``RemoteProtocolError`` if one is malformed."""
        try:
            told = {key: ranges_in(ranges) for key, ranges in interests.items()}
        except EncodingError as error:
            raise RemoteProtocolError(f"the peer told an interest that breaks the format: {error}") from None
        if told != self._told.get(peer):
            self._told[peer] = told
            self._total.clear()
            self._changed()

    def leave(self, peer: object) -> None:
        """A session has ended."""
        if self._told.pop(peer, None) is not None:
            self._total.clear()
            self._changed()

    def policy_for(self, peer: object = None) -> Policy:
        """The operator's policy with what all peers want but this one.

        If a peer wants something of every author, the node asks for everything. Logs that somebody names stay named
        then, because by some protocols a node can ask only for logs that it can name.
        """
        others = [told for other, told in self._told.items() if other is not peer]
        if not others:
            return self._policy
        everything = self._policy.hoard or self._policy.interests is None or any(told.get(()) for told in others)
        theirs = self._told.get(peer, {})
        everyone = [self._own, *others]
        keys = list(dict.fromkeys(key for told in everyone for key in told if key))[:MOST_KEYS]
        merged = {}
        for key in keys:
            # Most logs are told by few peers, so the union of all is right for nearly every peer, and is kept.
            is_total = not any(theirs.get(name) for name in (key, key[:1], ()))
            ranges = self._total.get(key) if is_total else None
            if ranges is None:
                ranges = union_of((item for told in everyone for item in _of(told, key)), MOST_RANGES)
                if is_total:
                    self._total[key] = ranges
            merged[key[0] if len(key) == 1 else key] = ranges
        return replace(self._policy, interests=merged, hoard=everything)


def _of(told: _Encoded, key: Key) -> Iterable[bytes]:
    """What is wanted of a log or author: the most exact interest counts."""
    return next((told[name] for name in (key, key[:1], ()) if name in told), ())
