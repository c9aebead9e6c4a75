"""What a node tells its peers: what it wants, and what it has got."""

from __future__ import annotations

from typing import TYPE_CHECKING

from culm.node.wants import EVERYTHING
from culm.ranges import RangeSet
from culm.session import Interests

if TYPE_CHECKING:
    from culm.node.policy import Policy
    from culm.session import Offer
    from culm.store import Log, SQLiteStore

_NOTHING = RangeSet()


def told_interests(policy: Policy) -> Interests:
    """The interests of a policy, as they are told to a peer. Blocked authors are among them, as ones of no interest."""
    found = Interests()
    ranges = found.ranges
    everything = policy.hoard or policy.interests is None
    if policy.allow_authors:
        ranges[()] = _NOTHING
        if everything:
            ranges.update({(author,): EVERYTHING for author in sorted(policy.allow_authors)})
    else:
        ranges[()] = EVERYTHING if everything else _NOTHING
    if not everything:
        for key, wanted in (policy.interests or {}).items():
            author = key[0] if isinstance(key, tuple) else key
            if policy.admits_author(author):
                ranges[key if isinstance(key, tuple) else (key,)] = wanted
    ranges.update({(author,): _NOTHING for author in sorted(policy.block_authors)})
    return found


def lacks(store: SQLiteStore, policy: Policy, offer: Offer, *, named: bool) -> bool:
    """Whether a peer may have something for us in a log.

    ``named``: its head differs from ours. If all that it has is held here, there may be a fork.
    """
    wanted = policy.interest(offer.log)
    if not wanted or not len(offer.held):
        return False
    if named and _newest(offer.held) == _newest(store.held(*offer.log)):
        return True
    if wanted == EVERYTHING:
        return any(_missing(store, offer.log, item.start, item.last, sparse=item.sparse) for item in offer.held)
    missing = wanted.missing(store.held(*offer.log), _newest(offer.held))
    return missing.missing(offer.held, _newest(offer.held)) != missing


def _newest(held: RangeSet) -> int:
    return max((item.last for item in held), default=0)


def _missing(store: SQLiteStore, log: Log, low: int, high: int, *, sparse: bool) -> bool:
    """Whether anything from ``low`` to ``high`` is missing; of a sparse range only its ends count."""
    if sparse:
        return any(store.missing(log, seq, 1, low=seq) for seq in {low, high})
    return bool(store.missing(log, high, 1, low=low))
