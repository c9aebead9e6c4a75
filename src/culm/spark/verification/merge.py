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

import struct
from collections.abc import Iterable, Iterator
from io import BytesIO
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple, Self

from pyarrow import compute

from culm.bamboo.certified import steps_across
from culm.bamboo.lipmaa import links_across
from culm.spark.batches.fields import DIGEST_BYTES
from culm.spark.runtime.columns import R
from culm.spark.runtime.engine import Table
from culm.spark.verification.authentic import Expected
from culm.store.schema import to_sql

ROOT = 1
"""The bit of a piece that reaches entry 1 within the segment; external number j has the bit 2 << j."""

_PAIR = struct.Struct(f"<Q{DIGEST_BYTES}s")  # a number and a digest
_EXPORT = struct.Struct(f"<Q{DIGEST_BYTES}s?H")  # the same, whether it is held, and its piece
_RISER = struct.Struct("<QQH")  # where it begins, where it ends, and how many pieces follow
_SUMMARY = struct.Struct("<QQQQQQIIII")  # six positions, then how many externals, exports, pieces and risers follow
_OUTCOME = struct.Struct("<QQBIII")  # limit, forked_at, forked, then how many pieces, externals and gaps follow

# Forget numbers only once this many are remembered. Links can still lead to some thirty of them, and walking these
# again after each segment would take time; a larger value only costs memory.
_PRUNE_FROM = 256


class Summary(NamedTuple):
    """What the rest of a log has to know of a segment. A position is 0 where there is no such entry.

    ``greatest`` is the greatest number of an authentic entry, ``end_at`` the lowest end-of-log entry. ``forked_at`` is
    the lowest position at which entries of the segment contradict each other; it may lie below the segment, since two
    entries can expect different things of it. ``lied_at`` is the lowest entry whose payload has another size than the
    entry claims. ``externals`` are pairs: a number below the segment and the digest expected there. An export is a
    number, the digest found or expected there, whether an authentic entry of that number is held, and the index of its
    piece. ``pieces`` are masks of bits (``ROOT``). A riser is a number from which a certificate pool steps down to
    below the segment, the greatest number of that pool in the segment, and the indexes of the pieces that the pool has
    between the two. It is left out if an entry of the pool is missing there.

    With ``HEADS`` only: ``unsigned`` are the entries with a bad signature that a higher segment could vouch for, and
    ``contradicting`` what the segment expects below itself beside ``externals``, other digests of the same numbers.
    """

    low: int
    high: int
    greatest: int
    end_at: int
    forked_at: int
    lied_at: int
    externals: Expected
    exports: list[tuple[int, bytes, bool, int]]
    pieces: list[int]
    risers: list[tuple[int, int, tuple[int, ...]]]
    unsigned: Expected = ()
    contradicting: Expected = ()

    def encode(self) -> bytes:
        """The summary as bytes; ``decode`` reads them. All numbers are little-endian."""
        head = _SUMMARY.pack(*self[:6], *map(len, self[6:10]))  # the fields are in the order of the format
        parts = [head, _packed(_PAIR, self.externals), _packed(_EXPORT, self.exports)]
        parts += [mask.to_bytes(len(self.externals) // 8 + 1, "little") for mask in self.pieces]
        parts += [struct.pack(f"<QQH{len(of)}H", start, top, len(of), *of) for start, top, of in self.risers]
        parts += [len(self.unsigned).to_bytes(4, "little"), _packed(_PAIR, [*self.unsigned, *self.contradicting])]
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read what ``encode`` wrote."""
        read = BytesIO(data).read
        *positions, externals, exports, pieces, risers = _SUMMARY.unpack(read(_SUMMARY.size))
        below = list(_PAIR.iter_unpack(read(externals * _PAIR.size)))
        above = list(_EXPORT.iter_unpack(read(exports * _EXPORT.size)))
        masks = [int.from_bytes(read(externals // 8 + 1), "little") for _ in range(pieces)]
        steps = []
        for _ in range(risers):
            start, top, count = _RISER.unpack(read(_RISER.size))
            steps.append((start, top, struct.unpack(f"<{count}H", read(2 * count))))
        unsigned, pairs = int.from_bytes(read(4), "little"), list(_PAIR.iter_unpack(read()))
        lists: list[Any] = [below, above, masks, steps, pairs[:unsigned], pairs[unsigned:]]
        return cls(*positions, *lists)


def _packed(kind: struct.Struct, rows: Iterable[Iterable[object]]) -> bytes:
    return b"".join([kind.pack(*row) for row in rows])


class Outcome(NamedTuple):
    """What a segment gets to know about the rest of its log.

    From ``limit`` on the whole log is invalid (0: it is not). ``forked`` says why: True for a fork, False for a payload
    that has another size than its entry claims. ``forked_at`` is the lowest fork (0: none); it is above ``limit`` if
    such a payload lies below it. ``connected`` says of each piece whether it has a path to entry 1, ``held`` of each
    external whether an authentic entry of that number is held; each is a byte, 1 or 0. ``gaps`` are the numbers above
    the segment from which certificate pools step down into it, and that are not certified, as far as the log reaches.
    """

    limit: int
    forked_at: int
    forked: bool
    connected: bytes
    held: bytes
    gaps: tuple[int, ...]

    def encode(self) -> bytes:
        """The outcome as bytes. Equal outcomes have equal bytes: a state compares them to find what has changed."""
        head = _OUTCOME.pack(*self[:3], *map(len, self[3:]))  # the fields are in the order of the format
        return head + self.connected + self.held + struct.pack(f"<{len(self.gaps)}Q", *self.gaps)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read what ``encode`` wrote."""
        limit, forked_at, forked, pieces, externals, count = _OUTCOME.unpack_from(data)
        middle, at = _OUTCOME.size + pieces, _OUTCOME.size + pieces + externals
        gaps = struct.unpack_from(f"<{count}Q", data, at)
        return cls(limit, forked_at, bool(forked), data[_OUTCOME.size : middle], data[middle:at], gaps)


_Reached = tuple[Summary, bytes, bytes]
"""A summary, with what of it is connected and held (``Outcome``)."""


def merge(summaries: Iterable[Summary]) -> list[Outcome]:
    """The outcomes of all segments of one log, which must ascend, in the same order."""
    # Of a number: the digest found or expected there, whether an entry is held there, and whether that is connected.
    passed: dict[int, tuple[bytes, bool, bool]] = {}
    reached: list[_Reached] = []
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
        connected = bytes(bool(mask & reachable) for mask in summary.pieces)
        for seq, digest, is_held, piece in summary.exports:
            passed[seq] = digest, is_held, is_held and connected[piece] > 0
        if len(passed) > _PRUNE_FROM:
            passed = {target: passed[target] for target in links_across(summary.high) if target in passed}
        reached.append((summary, connected, bytes(held)))
    newest = max((summary.greatest for summary, *_ in reached), default=0)
    end_at, lied_at = (_lowest(getattr(summary, name) for summary, *_ in reached) for name in ("end_at", "lied_at"))
    # An entry above an end-of-log entry contradicts it, even if no link does.
    forked_at = _lowest([*forks, end_at if newest > end_at else 0])
    forked = forked_at > 0 and not 0 < lied_at < forked_at
    limit = forked_at if forked else lied_at
    gaps = _gaps(reached, limit, newest)
    return [Outcome(limit, forked_at, forked, *known[1:], of) for known, of in zip(reached, gaps, strict=True)]


def _lowest(positions: Iterable[int]) -> int:
    """The lowest of some positions; 0 is none."""
    return min(filter(None, positions), default=0)


def _gaps(reached: list[_Reached], limit: int, newest: int) -> list[tuple[int, ...]]:
    """The ``gaps`` of each segment's outcome."""
    certified: set[int] = set()  # of the risers seen so far
    found = []
    for summary, connected, _ in reversed(reached):
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


LOG = ("author", "log")
BLOCK = (*LOG, "block")
SEGMENT = (*LOG, "low")
"""The columns by which rows of one log, block or segment are equal."""


class IndexRow(NamedTuple):
    """What is known of a segment beside its entries: how many of them have which verdict, its summary and its outcome.

    The index of a state has these (``state``). ``made`` is the number of the generation whose ``segments`` have the
    segment, ``generation`` that of the index. ``previous`` is the outcome of the run before. ``forked_at`` is the
    lowest fork of the log, null if there is none. Columns are null where a step tells only a part of this.
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


class SegmentRow(NamedTuple):
    """A segment: where it is, its ``Summary``, its ``Findings``, and its entries if a later step needs them.

    A segment of a state without findings only vouches for others. ``outcome`` and ``made``, the generation of a state
    that has the segment, are only there where a step has joined them (``IndexRow``).
    """

    author: bytes
    log: int
    block: int
    low: int
    high: int
    summary: bytes
    findings: bytes | None
    packed: bytes | None
    outcome: bytes | None = None
    made: int | None = None


def grouped(rows: Iterable[R], by: Iterable[str]) -> Iterator[tuple[Any, Iterator[R]]]:
    """The rows, sorted by some columns, as groups that are equal in these, each with their values."""
    return groupby(rows, key=attrgetter(*by))


COUNTED = ("entries", "verified", "unverified", "invalid", "payload_mismatches", "certified")
"""The columns of ``IndexRow`` that count entries, in the order of ``JudgedSegment.counts``."""


def merge_logs(rows: Iterable[IndexRow]) -> Iterator[IndexRow]:
    """The same rows with their outcomes; they come sorted by log and ``low``, with the outcomes of the run before."""
    for _, of_log in grouped(rows, LOG):
        segments = list(of_log)
        summaries = (Summary.decode(row.summary or b"") for row in segments)
        for row, outcome in zip(segments, merge(summaries), strict=True):
            forked_at = to_sql(outcome.forked_at) if outcome.forked_at else None
            yield row._replace(outcome=outcome.encode(), previous=row.outcome, forked_at=forked_at)


def sums(table: Table[Any], names: tuple[str, ...] = COUNTED) -> dict[str, int]:
    """The sums of some columns of a kept table."""
    batches = list(table.batches(*names))
    return {name: sum(int(compute.sum(batch.column(name)).as_py() or 0) for batch in batches) for name in names}
