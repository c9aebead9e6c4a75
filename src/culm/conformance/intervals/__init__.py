"""Checks of peers that speak Point-2-Point with intervals: how they begin, and the first entries of a log.

Specification: docs/specs/intervals.md.
"""

from collections.abc import Sequence
from contextlib import suppress

from culm.bamboo import Entry
from culm.conformance.check import MOST_PAYLOAD, SURVEYED, Differs, NotDecided, Refused, Suite
from culm.conformance.intervals import violations, with_log, without_log
from culm.conformance.intervals.talk import IntervalTalk


async def _begin(talk: IntervalTalk, opening: bytes | None) -> None:  # noqa: ARG001 - intervals have no greeting
    """Wait for credit to make a request: without it nothing can be asked, so each peer has to grant some."""
    answer = await talk.message(or_credit=True)
    if talk.is_closed and not talk.came:
        raise Refused
    if not talk.credit:
        raise Differs(talk.named(answer), "a grant of request credit")


async def _survey(talk: IntervalTalk) -> Sequence[tuple[Entry, bytes]]:
    """Ask for the first entries, up to one that does not come or whose payload is too large."""
    found: list[tuple[Entry, bytes]] = []
    await talk.grant(SURVEYED * (MOST_PAYLOAD + 1024))
    await talk.ask("02 00", f"01 00 {SURVEYED:02x} 00", log=talk.subject.held)
    hashes: dict[int, bytes] = {}
    with suppress(Differs, NotDecided):
        for seq in range(1, SURVEYED + 1):
            entry = await talk.entry(seq, hashes)
            hashes[seq] = entry.hash
            found.append((entry, await talk.payload(entry)))
    return found


_CHECKS = (*without_log.CHECKS.checks, *with_log.CHECKS.checks, *violations.CHECKS.checks)
SUITE = Suite(IntervalTalk, _begin, _survey, _CHECKS)
