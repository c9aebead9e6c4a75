"""Wrong payloads: which peer sent which payload wrong, so that it is not asked for that payload again.

A peer whose disk is damaged sends wrong bytes in good faith, and sends the same again whenever it is asked. Asking once
more would cost us a payload of any size each time. Everything else that the peer holds is as good as from anybody, so
only the one payload is left out of what it is asked for. After an hour it may be asked again, because the peer may have
mended its copy.

Sessions of one node share one object: the peer would otherwise be asked again over the next connection. A peer is known
by the identity that it has proved, otherwise by its address.
"""

from collections import OrderedDict
from dataclasses import replace

from culm.ranges import Range, RangeSet
from culm.types import Log

_KEPT_SECONDS = 3600.0  # As long as the longest penalty by default: until then a peer has hardly mended anything.
_MOST_LOGS = 4096  # Logs of peers, remembered at a time: what peers can make us remember stays bounded.
_MOST_PAYLOADS = 256  # Of one log of one peer: above ``MAX_OFFENCES``, after which a session ends.


class WrongPayloads:
    """The payloads that peers sent wrong."""

    def __init__(self) -> None:
        self._found: OrderedDict[tuple[bytes | str, Log], dict[int, float]] = OrderedDict()

    def note(self, peer: bytes | str, log: Log, seq: int, now: float) -> None:
        """A peer sent the payload of an entry wrong."""
        found = self._found.setdefault((peer, log), {})
        self._found.move_to_end((peer, log))
        if seq in found or len(found) < _MOST_PAYLOADS:
            found[seq] = now
        if len(self._found) > _MOST_LOGS:
            self._found.popitem(last=False)

    def without(self, peer: bytes | str, log: Log, interest: RangeSet, now: float) -> RangeSet:
        """What to ask a peer for of an interest in a log: all but what it sent wrong within the last hour."""
        found = self._found.get((peer, log))
        if found is None:
            return interest
        wrong = sorted(seq for seq, at in found.items() if now - at < _KEPT_SECONDS)
        # What an open path means depends on the newest entry. Nothing can be cut out of it: it lists what it forbids.
        paths = [item for item in interest if item.sparse and item.is_open]
        others = RangeSet((item for item in interest if item not in paths), most=interest.most)
        forbidding = [
            replace(item, forbidden=tuple(sorted({*item.forbidden, *(seq for seq in wrong if seq >= item.start)})))
            for item in paths
        ]
        rest = others.missing([Range(seq, seq) for seq in wrong])
        return RangeSet([*rest, *forbidding], most=max(interest.most, len(rest) + len(forbidding)))
