"""The third step, in a worker: the summaries of one log's segments, in ascending order, become outcomes.

A segment alone cannot know whether the entries it expects below itself are held and have a path to entry 1, nor
whether other segments contradict it. Here the summaries of its log pass by, from the lowest up. For each number that a
later segment may link to, the digest found or expected there is remembered, with whether it has a path to entry 1.
Each segment is compared with that, and then adds its exports.

The other half of the certificate pools is settled afterwards, from the highest segment down: a segment's risers are
certified if all that their pools have in the segment is verified, and the numbers above that these pools step down from
are certified.

A number is forgotten once no later link can lead to it, which leaves some thirty numbers of the longest log
(``links_across``). The summaries themselves stay in memory until the log has ended, because a fork between the last
segments decides about all of them. That is a few kilobytes for every 4,096 entries.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from culm.bamboo.certified import steps_across
from culm.bamboo.lipmaa import links_across
from culm.spark.verification.segment import ROOT, Summary
from culm.store.schema import to_sql

_OUTCOME = struct.Struct("<QQBIII")  # limit, forked_at, forked, then how many pieces, externals and gaps follow

# Forget numbers only once this many are remembered beyond those that links can still lead to. Doing it after each
# segment would walk the same thirty numbers again and again; a larger value only costs memory.
_PRUNE_FROM = 256


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a segment gets to know about the rest of its log.

    From ``limit`` on the whole log is invalid (0: it is not). ``forked`` says why: True for a fork, False for a payload
    that has another size than its entry claims. ``forked_at`` is the lowest fork (0: none); it is above ``limit`` if
    such a payload lies below it. ``connected`` says of each piece whether it has a path to entry 1, ``held`` of each
    external whether an authentic entry of that number is held. ``gaps`` are the numbers above the segment from which
    certificate pools step down into it, and that are not certified, as far as the log reaches.
    """

    limit: int
    forked_at: int
    forked: bool
    connected: tuple[bool, ...]
    held: tuple[bool, ...]
    gaps: tuple[int, ...]

    def encode(self) -> bytes:
        """The outcome as bytes. Equal outcomes have equal bytes: a state compares them to find what has changed."""
        counts = len(self.connected), len(self.held), len(self.gaps)
        head = _OUTCOME.pack(self.limit, self.forked_at, self.forked, *counts)
        return head + bytes(self.connected) + bytes(self.held) + struct.pack(f"<{len(self.gaps)}Q", *self.gaps)

    @classmethod
    def decode(cls, data: bytes) -> Outcome:
        """Read what ``encode`` wrote."""
        limit, forked_at, forked, pieces, externals, count = _OUTCOME.unpack_from(data)
        at = _OUTCOME.size + pieces + externals
        flags = [bool(flag) for flag in data[_OUTCOME.size : at]]
        gaps = struct.unpack_from(f"<{count}Q", data, at)
        return cls(limit, forked_at, bool(forked), tuple(flags[:pieces]), tuple(flags[pieces:]), gaps)

    @property
    def cause(self) -> str:
        """Why everything from the limit on is invalid."""
        return f"{'fork' if self.forked else 'payload size mismatch'} at {self.limit}"


def merge(summaries: Iterable[Summary]) -> list[Outcome]:
    """The outcomes of all segments of one log, which must ascend, in the same order."""
    # Of a number: the digest found or expected there, whether an entry is held there, and whether that is connected.
    passed: dict[int, tuple[bytes, bool, bool]] = {}
    prune_at = _PRUNE_FROM
    reached: list[tuple[Summary, tuple[bool, ...], tuple[bool, ...]]] = []
    forks: list[int] = []
    for summary in summaries:
        forks.append(summary.forked_at)
        reachable, held = ROOT, []
        for number, (target, expected) in enumerate(summary.externals):
            digest, is_held, is_connected = passed.setdefault(target, (expected, False, False))
            if digest != expected:
                forks.append(target)
            elif is_connected:
                reachable |= ROOT << 1 + number
            held.append(is_held)
        connected = tuple(bool(mask & reachable) for mask in summary.pieces)
        for seq, digest, is_held, piece in summary.exports:
            passed[seq] = digest, is_held, is_held and connected[piece]
        if len(passed) > prune_at:
            passed = {target: passed[target] for target in links_across(summary.high) if target in passed}
            prune_at = len(passed) + _PRUNE_FROM
        reached.append((summary, connected, tuple(held)))
    newest = max((summary.greatest for summary, *_ in reached), default=0)
    end_at, lied_at = (_lowest(getattr(summary, name) for summary, *_ in reached) for name in ("end_at", "lied_at"))
    # An entry above an end-of-log entry contradicts it, even if no link does.
    forked_at = _lowest([*forks, end_at if newest > end_at else 0])
    forked = forked_at > 0 and not 0 < lied_at < forked_at
    limit = forked_at if forked else lied_at
    gaps = _gaps([(summary, connected) for summary, connected, _ in reached], limit, newest)
    return [
        Outcome(limit, forked_at, forked, connected, held, of_segment)
        for (_, connected, held), of_segment in zip(reached, gaps, strict=True)
    ]


def _lowest(positions: Iterable[int]) -> int:
    """The lowest of some positions; 0 is none."""
    return min(filter(None, positions), default=0)


def _gaps(segments: list[tuple[Summary, tuple[bool, ...]]], limit: int, newest: int) -> list[tuple[int, ...]]:
    """The ``gaps`` of each segment's outcome, given what of each is connected."""
    certified: set[int] = set()  # of the risers seen so far
    found = []
    for summary, connected in reversed(segments):
        steps = dict(steps_across(summary.greatest)) if summary.greatest else {}
        gaps = tuple(
            start for goal, start in steps.items() if goal >= summary.low and start <= newest and start not in certified
        )
        certified.update(
            start
            for start, top, pieces in summary.risers
            if (not limit or top < limit) and all(connected[piece] for piece in pieces) and steps.get(top) not in gaps
        )
        found.append(gaps)
    return found[::-1]


class IndexRow(NamedTuple):
    """What is known of a segment beside its entries: how many of them have which verdict, its summary and its outcome.

    The index of a state has these (``state``). ``made`` is the number of the generation whose ``segments`` have the
    segment, ``generation`` that of the index. ``previous`` is the outcome of the run before. ``forked_at`` is the
    lowest fork of the log, null if there is none. Columns are null where a step tells only a part of this, and
    ``certified`` also in states of earlier versions, which did not count it.
    """

    author: bytes
    log: int
    low: int
    entries: int | None = None
    verified: int | None = None
    unverified: int | None = None
    invalid: int | None = None
    payload_mismatches: int | None = None
    certified: int | None = None
    block: int | None = None
    high: int | None = None
    summary: bytes | None = None
    outcome: bytes | None = None
    previous: bytes | None = None
    forked_at: int | None = None
    made: int | None = None
    generation: int | None = None


COUNTED = ("entries", "verified", "unverified", "invalid", "payload_mismatches", "certified")
"""The columns of ``IndexRow`` that count entries, in the order of ``JudgedSegment.counts``."""


def merge_logs(rows: Iterable[IndexRow]) -> Iterator[IndexRow]:
    """The same rows with their outcomes; they come sorted by log and ``low``, with the outcomes of the run before."""
    for _, of_log in groupby(rows, key=attrgetter("author", "log")):
        segments = list(of_log)
        outcomes = merge(Summary.decode(row.summary or b"") for row in segments)
        for row, outcome in zip(segments, outcomes, strict=True):
            forked_at = to_sql(outcome.forked_at) if outcome.forked_at else None
            yield row._replace(outcome=outcome.encode(), previous=row.outcome, forked_at=forked_at)
