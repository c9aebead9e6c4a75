"""The interests that a peer is told: the policy's, without the payloads that the operator had the node forget.

A forgotten payload is missing, so peers would offer and send it again. To prevent that, the interest must leave it out.
A range has a list of *forbidden* numbers for this purpose. Listing each forgotten payload is fine for ten of them, but
somebody who forgets the payloads 1 to 1,000,000 would have to send megabytes. So a long run of forgotten payloads cuts
the range instead: 1 to 1,000,000 becomes one range without payloads, and the rest another one with payloads.

However much was forgotten, the message stays small. Where the limits below do not suffice, a peer is told that more is
wanted than is. It is never told less, because then something would be missing for ever. What comes needlessly does no
harm: the store does not take what it forgot.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from culm.bamboo import encode_varu64
from culm.node.interests.missing import EVERYTHING
from culm.node.interests.policy import Policy
from culm.ranges import Range, RangeSet
from culm.session import Interests
from culm.store import ReadableStore
from culm.types import Log, Run

MAX_RUNS = 65_536  # Runs of forgotten payloads that are looked at in one log, which bounds the time that takes.
LONG_RUN = 16  # Numbers in a run from which on it cuts the range: about where a cut takes fewer bytes than a list.
MAX_CUTS = 64  # Runs of one log that cut a range; the longest ones do. A receiver evaluates all parts again and again.
MAX_FORBIDDEN_BYTES = 1024  # Bytes of the forbidden numbers of one range: a receiver refuses more.


def interest_for_peer(store: ReadableStore, policy: Policy, log: Log) -> RangeSet:
    """The interest in one log without what was forgotten of it, within the limits that every receiver has."""
    interest = policy.interest(log)
    if not len(interest) or not (runs := store.forgotten(log, MAX_RUNS)):
        return interest
    longest = sorted(runs, key=lambda run: run[0] - run[1])[:MAX_CUTS]
    cuts = sorted(run for run in longest if run[1] - run[0] + 1 >= LONG_RUN)
    rest = [run for run in runs if run not in set(cuts)]
    told = [_without(part, runs if item.sparse else rest) for item in interest for part in _cut(item, cuts)]
    return RangeSet(told, most=max(interest.most, len(told)))


def interests_for_peer(store: ReadableStore, policy: Policy) -> Interests:
    """All interests of a policy, as they are told to every peer.

    The key ``()`` stands for all authors that are not named. Authors that are not wanted are named with no ranges.
    """
    found = Interests()
    everything = policy.hoard or policy.interests is None
    found[()] = EVERYTHING if everything and not policy.allow_authors else RangeSet()
    if everything:
        found.update({(author,): EVERYTHING for author in sorted(policy.allow_authors)})
    else:
        for key, wanted in (policy.interests or {}).items():
            if isinstance(key, bytes):
                found[key,] = wanted if policy.admits_author(key) else RangeSet()
            else:
                found[key] = interest_for_peer(store, policy, key)
        found.update({(author,): EVERYTHING for author in sorted(policy.own) if policy.admits_author(author)})
    found.update({(author,): RangeSet() for author in sorted(policy.block_authors)})
    return found


def _cut(item: Range, runs: Sequence[Run]) -> Iterator[Range]:
    """A range as parts with and without payloads, cut at ``runs``. A path (sparse range) cannot be cut."""
    if item.sparse or not item.payloads:
        yield item
        return
    at = item.start
    for low, high in runs:
        if high < item.start or low > item.last:
            continue
        low, high = max(low, item.start), min(high, item.last)  # noqa: PLW2901 - the part of the run inside the range
        if at < low:
            yield replace(item, start=at, end=low - 1)
        if item.metadata:
            yield replace(item, start=low, end=high, payloads=False)
        at = high + 1
    if at <= item.last:
        yield replace(item, start=at)


def _without(item: Range, runs: Iterable[Run]) -> Range:
    """The range with as many numbers of ``runs`` forbidden as fit into ``MAX_FORBIDDEN_BYTES``."""
    if not item.payloads:
        return item
    room = MAX_FORBIDDEN_BYTES - sum(len(encode_varu64(seq)) for seq in item.forbidden)
    more: list[int] = []
    for low, high in runs:
        for seq in range(max(low, item.start), min(high, item.last) + 1):
            if item.sparse and not item.is_open and not item.covers(seq):
                continue
            room -= len(encode_varu64(seq))
            if room < 0:
                return replace(item, forbidden=(*item.forbidden, *more))
            more.append(seq)
    return replace(item, forbidden=(*item.forbidden, *more))
