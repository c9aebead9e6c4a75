"""Checks of peers that speak Point-2-Point with proposals: how they begin, and the first entries of a log.

Specification: docs/specs/proposals.md.
"""

from collections.abc import Sequence
from contextlib import suppress

from culm.bamboo import Entry
from culm.conformance.check import SURVEYED, Differs, NotDecided, Refused, Suite
from culm.conformance.proposals import violations, with_log, without_log
from culm.conformance.proposals.talk import ALL_SIZES, ProposalTalk
from culm.conformance.proposals.with_log import proposed


async def _begin(talk: ProposalTalk, opening: bytes | None) -> None:
    """Send our setup, and wait for that of the peer."""
    await talk.send(b"\x00\x00\x00" if opening is None else opening)
    while talk.setup is None:
        if not await talk.take():
            if talk.is_closed and not talk.came:
                raise Refused
            raise Differs(talk.silence(), "a setup: a byte of flags, and two windows")


async def _survey(talk: ProposalTalk) -> Sequence[tuple[Entry, bytes]]:
    """Propose the first entries, and take them up to one that does not come or whose payload is too large."""
    found: list[tuple[Entry, bytes]] = []
    sent: dict[int, Entry] = {}
    with suppress(Differs, NotDecided):
        await proposed(talk, 0xF0, f"01 01 {ALL_SIZES} {SURVEYED:02x} {SURVEYED:02x}")
        for seq in range(1, SURVEYED + 1):
            sent[seq] = await talk.entry(seq, sent)
            found.append((sent[seq], await talk.payload(sent[seq])))
    return found


_CHECKS = (*without_log.CHECKS.checks, *with_log.CHECKS.checks, *violations.CHECKS.checks)
SUITE = Suite(ProposalTalk, _begin, _survey, _CHECKS)
