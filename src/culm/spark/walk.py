"""One log after the other, in ascending order: paths, forks, payloads of the wrong size (bamboo.md, "Verification").

Runs in a worker on a sorted stream, and remembers so little of it that a log never has to fit into memory. A verdict
is final only with the log's *limit*, the lowest position of a fork or of a payload whose author lied about its size:
everything from there on is invalid, whatever path it has. The limit is known when the log has passed, so it comes out
last, as a row of its own.
"""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from culm.bamboo import ForkCase, ForkFinding, LogAuditor, lipmaa
from culm.bamboo.lipmaa import links_across
from culm.spark.payload import HELD, MISMATCH, SIZE_MISMATCH, better
from culm.store.schema import from_sql, to_sql

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

VERIFIED, UNVERIFIED, INVALID = "verified", "unverified", "invalid"
BAD_SIGNATURE = "bad signature"

_MAX_TOGETHER = 1000  # entries of one number looked at together
_PRUNE_FROM = 256  # numbers passed before it is worth finding out which of them can still be linked to


class Fact(NamedTuple):
    """What a log is judged by: an entry once, or a payload's frame. Numbers are as ``to_sql`` gives them.

    Of a frame there are only the place, ``size`` and ``payload_hash``. ``authentic`` says whether the signature is
    good. Sorted as the fields stand, frames come right before the entries they fit.
    """

    author: bytes
    log: int
    seq: int
    payload_hash: bytes
    is_entry: bool
    entry_hash: bytes
    authentic: bool
    is_end: bool
    backlink: bytes | None
    lipmaalink: bytes | None
    size: int
    payload: str
    copies: int


class Finding(NamedTuple):
    """The finding on an entry, or a log's limit. Of a limit there are ``author``, ``log``, ``seq`` and ``reason``.

    ``forked`` is true in the limit of a forked log. ``verdict`` and ``reason`` hold below the log's limit.
    """

    is_entry: bool
    author: bytes
    log: int
    seq: int
    reason: str | None
    forked: bool = False
    entry_hash: bytes | None = None
    size: int | None = None
    payload_hash: bytes | None = None
    is_end: bool | None = None
    payload: str | None = None
    verdict: str | None = None
    copies: int | None = None


def walk(facts: Iterable[Fact]) -> Iterator[Finding]:
    """The findings on the entries of whole logs, sorted as ``Fact`` says; a log's limit comes behind its entries."""
    for (author, log), of_log in groupby(facts, key=itemgetter(0, 1)):
        judge = _Log()
        for seq, of_place in groupby(of_log, key=itemgetter(2)):
            yield from judge.place(from_sql(seq), of_place)
        limit = judge.limit()
        if limit is not None:
            position, reason = limit
            yield Finding(
                is_entry=False,
                author=author,
                log=log,
                seq=to_sql(position),
                reason=reason,
                forked=judge.forked,
            )


class _Log:
    """One log as it passes by."""

    def __init__(self) -> None:
        self._auditor = LogAuditor()
        self._held: set[int] = set()
        self._prune_at = _PRUNE_FROM
        self._end: int | None = None
        self._lied_at: int | None = None

    def place(self, seq: int, facts: Iterable[Fact]) -> Iterator[Finding]:
        """Judge all entries of one number: first their payloads, then what they say of the log."""
        present: list[tuple[Fact, str]] = []
        frame: Fact | None = None
        fits = stray = False  # whether the frame last seen fits an entry; whether one before fitted none
        for fact in facts:
            if not fact.is_entry:
                stray = stray or not (frame is None or fits)
                frame, fits = fact, False
                continue
            payload = fact.payload
            if frame is not None and frame.payload_hash == fact.payload_hash:
                fits = True
                payload = better(payload, HELD if frame.size == fact.size else SIZE_MISMATCH)
            present.append((fact, payload))
            if len(present) == _MAX_TOGETHER:  # more than any honest log has: a stray frame behind is not theirs
                yield from self._judge(seq, present, stray=stray)
                present = []
        yield from self._judge(seq, present, stray=stray or not (frame is None or fits))

    def _judge(self, seq: int, present: list[tuple[Fact, str]], *, stray: bool) -> Iterator[Finding]:
        for fact, state in present:
            payload = better(state, MISMATCH) if stray else state
            verdict: tuple[str, str | None]
            if not fact.authentic:
                verdict = INVALID, BAD_SIGNATURE
            elif self._add(seq, fact):
                verdict = VERIFIED, None
            else:
                verdict = UNVERIFIED, self._needs(seq)
            if fact.authentic and payload == SIZE_MISMATCH and self._lied_at is None:
                self._lied_at = seq
            yield Finding(
                is_entry=True,
                author=fact.author,
                log=fact.log,
                seq=fact.seq,
                reason=verdict[1],
                entry_hash=fact.entry_hash,
                size=fact.size,
                payload_hash=fact.payload_hash,
                is_end=fact.is_end,
                payload=payload,
                verdict=verdict[0],
                copies=fact.copies,
            )

    def _add(self, seq: int, fact: Fact) -> bool:
        """Take an authentic entry; whether a path leads from it to entry 1."""
        if fact.is_end and self._end is None:
            self._end = seq
        if seq not in self._held and len(self._held) >= self._prune_at:
            self._held.intersection_update(links_across(seq - 1))
            self._prune_at = len(self._held) + _PRUNE_FROM
        self._held.add(seq)
        return self._auditor.add_fields(seq, fact.entry_hash, fact.backlink, fact.lipmaalink, is_end=fact.is_end)

    def _needs(self, seq: int) -> str:
        """What would give an entry its path: the link targets not held, and those held that have no path either."""
        targets = dict.fromkeys((seq - 1, lipmaa(seq)))
        missing = " or ".join(str(target) for target in targets if target not in self._held)
        stuck = " or ".join(str(target) for target in targets if target in self._held)
        needs = [missing] if missing else []
        if stuck:
            needs.append(f"a path for {stuck}")
        return f"no path to entry 1: needs {', or '.join(needs)}"

    @property
    def forked(self) -> bool:
        """Whether any entries so far contradict each other."""
        return self._auditor.fork is not None

    def limit(self) -> tuple[int, str] | None:
        """The lowest position of a fork or of a lie about a size, with the reason; call when the log has passed."""
        fork = self._auditor.fork
        if fork is not None and (self._lied_at is None or fork.position <= self._lied_at):
            entries = f"(entries {fork.first} and {fork.second})"
            return fork.position, f"fork at {fork.position}: {self._case(fork).value} {entries}"
        return None if self._lied_at is None else (self._lied_at, f"payload size mismatch at {self._lied_at}")

    def _case(self, fork: ForkFinding) -> ForkCase:
        if fork.position < fork.first:
            return ForkCase.COMMON_TARGET
        if fork.first == fork.second:
            return ForkCase.SAME_NUMBER
        return ForkCase.AFTER_END if fork.position == self._end else ForkCase.LINK_TO_OTHER
