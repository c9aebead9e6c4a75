"""Wrong payloads: which peer sent which payload wrong, and which payloads are fetched whole from one peer.

A peer whose disk is damaged sends wrong bytes in good faith, and sends the same again whenever it is asked. Asking once
more would cost us a payload of any size each time. Everything else that the peer holds is as good as from anybody, so
only the one payload is left out of what it is asked for. After an hour it may be asked again, because the peer may have
mended its copy.

A payload may also come in pieces from several peers, because a transfer that breaks off is continued with the next
peer. If the whole proves wrong, nobody knows whose piece it was. Nobody is blamed then: all pieces are dropped, and one
session *alone* fetches the payload, from its first byte. The others neither ask for it nor store what they still get
of it. If it proves wrong again, its sender is known, and the next session has its turn. A session has its turn for ten
minutes at most, because a slow peer must not keep the payload from us.

Sessions of one node share one object: the peer would otherwise be asked again over the next connection. A peer is known
by the identity that it has proved, otherwise by its address.
"""

from collections import OrderedDict
from dataclasses import replace

from culm.ranges import Range, RangeSet
from culm.types import Log

_KEPT_SECONDS = 3600.0  # As long as the longest penalty by default: until then a peer has hardly mended anything.
_ALONE_SECONDS = 600.0
_MOST_ALONE = 1024  # Payloads that are fetched whole at a time; of more, the first ones may come in pieces again.
_MOST_LOGS = 4096  # Logs of peers, remembered at a time: what peers can make us remember stays bounded.
_MOST_PAYLOADS = 256  # Of one log of one peer: above ``MAX_OFFENCES``, after which a session ends.


class WrongPayloads:
    """The payloads that peers sent wrong."""

    def __init__(self) -> None:
        self._found: OrderedDict[tuple[bytes | str, Log], dict[int, float]] = OrderedDict()
        self._alone: dict[Log, dict[int, tuple[object, float]]] = {}  # Who fetches a payload alone, and until when.

    def note(self, peer: bytes | str, log: Log, seq: int, now: float) -> None:
        """A peer sent the payload of an entry wrong."""
        found = self._found.setdefault((peer, log), {})
        self._found.move_to_end((peer, log))
        if seq in found or len(found) < _MOST_PAYLOADS:
            found[seq] = now
        if len(self._found) > _MOST_LOGS:
            self._found.popitem(last=False)

    # -- payloads that come from one peer alone ----------------------------------------------------------------

    def fetch_alone(self, owner: object, log: Log, seq: int, now: float) -> None:
        """The pieces of a payload proved wrong together: ``owner`` fetches it alone, unless another session does."""
        if self.is_for_another(owner, log, seq, now):
            return
        if sum(map(len, self._alone.values())) >= _MOST_ALONE:
            self._alone.pop(next(iter(self._alone)))
        self._alone.setdefault(log, {})[seq] = owner, now + _ALONE_SECONDS

    def is_for_another(self, owner: object, log: Log, seq: int, now: float) -> bool:
        """Whether another session fetches a payload alone."""
        holder, until = self._alone.get(log, {}).get(seq, (owner, 0.0))
        return holder is not owner and now < until

    def leave(self, owner: object, log: Log | None = None, seq: int | None = None) -> None:
        """A session fetches nothing alone any more, or not this payload."""
        for name in [log] if log is not None else list(self._alone):
            found = self._alone.get(name, {})
            for at in [at for at, (holder, _) in found.items() if holder is owner and seq in (None, at)]:
                del found[at]
            if not found:
                self._alone.pop(name, None)

    # -- what to ask for ---------------------------------------------------------------------------------------

    def without(
        self, peer: bytes | str, log: Log, interest: RangeSet, now: float, owner: object | None = None
    ) -> RangeSet:
        """What to ask a peer for of an interest in a log.

        All but what it sent wrong within the last hour, and what another session than ``owner`` fetches alone.
        """
        found = self._found.get((peer, log), {})
        left_out = {seq for seq, at in found.items() if now - at < _KEPT_SECONDS}
        left_out.update(seq for seq in self._alone.get(log, {}) if self.is_for_another(owner, log, seq, now))
        if not left_out:
            return interest
        wrong = sorted(left_out)
        # What an open path means depends on the newest entry. Nothing can be cut out of it: it lists what it forbids.
        paths = [item for item in interest if item.sparse and item.is_open]
        others = RangeSet((item for item in interest if item not in paths), most=interest.most)
        forbidding = [
            replace(item, forbidden=tuple(sorted({*item.forbidden, *(seq for seq in wrong if seq >= item.start)})))
            for item in paths
        ]
        rest = others.missing([Range(seq, seq) for seq in wrong])
        return RangeSet([*rest, *forbidding], most=max(interest.most, len(rest) + len(forbidding)))
