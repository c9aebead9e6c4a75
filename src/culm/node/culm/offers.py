"""Offers: what a node says of a log to a peer of ``culm://``, and what a peer's offer is worth to the node.

An offer says which entries and payloads are held, and two things more that let a fork show before anything is fetched.
The *tip* is the beginning of the newest entry's hash: two nodes that hold up to entry 12 with different tips have
different entries somewhere at or below 12, so one of them asks for the other's entry 12. The *fork* is the lowest
position of a fork that is known: a peer that knows a lower one has a proof which is new to us.

Specification: docs/specs/culm.md, "News".
"""

from culm.bamboo import MAX_U64
from culm.bamboo.yamf import YAMF_PREFIX
from culm.errors import Place
from culm.node.interests.missing import EVERYTHING, lacking, lacking_members, lacking_tails, stranded
from culm.node.interests.policy import Policy
from culm.ranges import RangeSet
from culm.session import Offer
from culm.session.messages import TIP_BYTES
from culm.store import ReadableStore, State
from culm.types import Log


def offer_of(store: ReadableStore, log: Log) -> Offer:
    """What the store holds of a log, as it is offered to peers."""
    held = store.held(*log)
    tip = _tip(store, log, _newest(held))
    return Offer(*log, held, tip, lowest_fork(store, log) or 0)


def lowest_fork(store: ReadableStore, log: Log) -> int | None:
    """The lowest position of a fork for which a proof is held; None if there is none."""
    return min((proof.position for proof in store.fork_proofs(log)), default=None)


def _tip(store: ReadableStore, log: Log, newest: int) -> bytes:
    """The beginning of the digest of entry ``newest``; empty if it is not verified or there is none (0)."""
    stored = store.get(Place(*log, newest)) if newest else None
    if stored is None or stored.state is not State.VERIFIED:
        return b""
    return stored.entry.hash[len(YAMF_PREFIX) :][:TIP_BYTES]


def asked_of(policy: Policy, offer: Offer) -> RangeSet:
    """The part of a peer's offer that the policy wants: what is wanted, without what the peer does not hold."""
    wanted = policy.interest(offer.log)
    if wanted == EVERYTHING:
        return offer.held
    newest = _newest(offer.held)
    return wanted.missing(wanted.missing(offer.held, newest), newest)


def doubted(store: ReadableStore, offer: Offer) -> int | None:
    """The number of an entry that the peer holds differently; None if the tips agree, or if one is missing."""
    newest = _newest(offer.held)
    tip = _tip(store, offer.log, newest)
    return newest if tip and offer.tip and tip != offer.tip else None


def knows_lower_fork(store: ReadableStore, offer: Offer) -> bool:
    """Whether the peer knows of a fork at a lower number than we do, or of any if we know none."""
    return bool(offer.fork) and offer.fork < (lowest_fork(store, offer.log) or MAX_U64)


def newest_held(store: ReadableStore, log: Log) -> int:
    """The number of the newest verified entry; 0 if there is none."""
    return _newest(store.held(*log))


def lacks(store: ReadableStore, policy: Policy, offer: Offer) -> bool:
    """Whether a peer's offer has something for us: entries, payloads, or a fork that we do not know of."""
    if not policy.wants(offer.log):
        return False
    if knows_lower_fork(store, offer) or doubted(store, offer) is not None:
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
