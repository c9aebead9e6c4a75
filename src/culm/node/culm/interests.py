"""What a peer is told that we are interested in: the interests, without the payloads that were forgotten.

A payload that was forgotten is a forbidden number of the range where it would be asked for, so that nobody sends it.
Forgotten runs that are long cut the range instead: their entries are asked for without payloads. What is told stays
small, whatever was forgotten; beyond the bounds more is told than is wanted, never less, and the store does not take
what it forgot.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from culm.bamboo import encode_varu64
from culm.node.interests.missing import EVERYTHING
from culm.ranges import Range, RangeSet
from culm.session import Interests

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from culm.node.interests.policy import Policy
    from culm.types import Log

MAX_RUNS = 65_536  # of forgotten payloads that are looked at in a log
LONG_RUN = 16  # numbers from which on a run cuts the range
MAX_CUTS = 64
MAX_FORBIDDEN_BYTES = 1024  # of one range's forbidden numbers as bytes: what a receiver takes
Run = tuple[int, int]


class Forgetful(Protocol):
    """What is asked of a store, or of a source."""

    def forgotten(self, log: Log, limit: int) -> list[Run]:
        """The first ``limit`` runs of entries of a log whose payload was forgotten, ascending."""


def told_interest(store: Forgetful, policy: Policy, log: Log) -> RangeSet:
    """The interest in a log with what was forgotten of it left out, as ranges that any peer takes."""
    interest = policy.interest(log)
    if not len(interest) or not (runs := store.forgotten(log, MAX_RUNS)):
        return interest
    longest = sorted(runs, key=lambda run: run[0] - run[1])[:MAX_CUTS]
    cuts = sorted(run for run in longest if run[1] - run[0] + 1 >= LONG_RUN)
    rest = [run for run in runs if run not in set(cuts)]
    told = [_without(part, runs if item.sparse else rest) for item in interest for part in _cut(item, cuts)]
    return RangeSet(told, most=max(interest.most, len(told)))


def told_interests(store: Forgetful, policy: Policy) -> Interests:
    """All interests of a policy. Authors that are not wanted are among them, with an empty set of ranges."""
    found = Interests()
    ranges = found.ranges
    everything = policy.hoard or policy.interests is None
    ranges[()] = EVERYTHING if everything and not policy.allow_authors else RangeSet()
    if everything:
        ranges.update({(author,): EVERYTHING for author in sorted(policy.allow_authors)})
    else:
        for key, wanted in (policy.interests or {}).items():
            if isinstance(key, bytes):
                ranges[key,] = wanted if policy.admits_author(key) else RangeSet()
            else:
                ranges[key] = told_interest(store, policy, key)
        ranges.update({(author,): EVERYTHING for author in sorted(policy.own) if policy.admits_author(author)})
    ranges.update({(author,): RangeSet() for author in sorted(policy.block_authors)})
    return found


def _cut(item: Range, runs: Sequence[Run]) -> Iterator[Range]:
    """A range as parts with and without payloads; a path stays one."""
    if item.sparse or not item.payloads:
        yield item
        return
    at = item.start
    for low, high in runs:
        if high < item.start or low > item.last:
            continue
        low, high = max(low, item.start), min(high, item.last)  # noqa: PLW2901 - the part of it that is inside
        if at < low:
            yield replace(item, start=at, end=low - 1)
        if item.metadata:
            yield replace(item, start=low, end=high, payloads=False)
        at = high + 1
    if at <= item.last:
        yield replace(item, start=at)


def _without(item: Range, runs: Iterable[Run]) -> Range:
    """The range with as many of the numbers forbidden as there is room for."""
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
