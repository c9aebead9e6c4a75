"""Offers: what a node says of a log to a peer of ``culm://``, and what a peer's offer is worth to the node.

An offer says which entries and payloads are held, and two things more that let a fork show before anything is fetched.
The *tip* is the beginning of the newest entry's hash: two nodes that hold up to entry 12 with different tips have
different entries somewhere at or below 12, so one of them asks for the other's entry 12. The *fork* is the lowest
position of a fork that is known: a peer that knows a lower one has a proof which is new to us.

Specification: docs/specs/culm.md, "News".
"""

from culm.node.interests import doubts
from culm.node.interests.missing import EVERYTHING, lacking, lacking_members, lacking_tails, stranded
from culm.node.interests.policy import Policy
from culm.ranges import RangeSet
from culm.session import Offer
from culm.session.messages import TIP_BYTES
from culm.store import ReadableStore
from culm.types import Log


def offer_of(store: ReadableStore, log: Log) -> Offer:
    """What the store holds of a log, as it is offered to peers."""
    held = store.held(*log)
    tip = doubts.digest_at(store, log, _newest(held))[:TIP_BYTES]
    return Offer(*log, held, tip, doubts.lowest_fork(store, log) or 0)


def asked_of(policy: Policy, offer: Offer) -> RangeSet:
    """The part of a peer's offer that the policy wants: what is wanted, without what the peer does not hold."""
    wanted = policy.interest(offer.log)
    if wanted == EVERYTHING:
        return offer.held
    newest = _newest(offer.held)
    return wanted.missing(wanted.missing(offer.held, newest), newest)


def doubted(store: ReadableStore, offer: Offer) -> int | None:
    """The number of an entry of the peer's that may contradict ours, as far as the peer holds it; None if none does."""
    seq = doubts.doubted(store, offer.log, _newest(offer.held), offer.tip, offer.fork)
    return seq if seq is not None and (seq == offer.fork or offer.held.contains_metadata(seq)) else None


def newest_held(store: ReadableStore, log: Log) -> int:
    """The number of the newest verified entry; 0 if there is none."""
    return _newest(store.held(*log))


def lacks(store: ReadableStore, policy: Policy, offer: Offer) -> bool:
    """Whether a peer's offer has something for us: entries, payloads, or a fork that we do not know of."""
    if not policy.wants(offer.log):
        return False
    if doubted(store, offer) is not None:
        return True
    for item in asked_of(policy, offer):
        if lacking_members(store, offer.log, item, 0) if item.sparse else lacking(store, offer.log, item, 1, 1):
            return True
    interest = policy.interest(offer.log)
    if interest == EVERYTHING:  # Then whatever a waiting entry needs was among what is missing above.
        return False
    if lacking_tails(store, offer.log, interest, _newest(offer.held), offer.held.contains_metadata):
        return True
    needed = stranded(store, offer.log, interest, _newest(offer.held))
    return any(offer.held.contains_metadata(seq) for seq in needed)


def _newest(held: RangeSet) -> int:
    return max((item.last for item in held), default=0)
