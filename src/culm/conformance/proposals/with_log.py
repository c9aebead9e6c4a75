"""Checks about the entries of a log that the peer holds.

Specification: docs/specs/proposals.md; the sections that checks name without a page are those of the document.
"""

from collections.abc import Awaitable, Callable

from culm.bamboo import encode_varu64
from culm.conformance.check import Differs, Listing, NotDecided, check_entry, rows
from culm.conformance.proposals.talk import ALL_SIZES, MOST, ProposalTalk, named
from culm.proposals.messages import Adjust, Cancel, Code, ControlMessage, Proposal

CHECKS: Listing[ProposalTalk] = Listing()


async def proposed(talk: ProposalTalk, flags: int, rest: str | bytes) -> None:
    """Grant data credit, propose a part of the held log, and expect a confirmation."""
    await talk.grant()
    await talk.propose(flags, rest, log=talk.subject.held)
    await talk.confirmed()


# An item, where it is written, the claim, entries of the log that it needs, the proposal's first byte and what follows
# the log in it, and the messages about items that it brings. ALL stands for all sizes.
_HELD = f"""
held log | The Data Channel | A range comes in order, metadata first. | 3 | f0 / 01 01 ALL 03 03 | m1 p1 m2 p2 m3 p3
sparse range | The Control Channel; T42 | Only the shortest path comes. | 4 | f2 / 01 01 ALL 04 04 | m1 p1 m4 p4
lower pool | The Data Channel | Metadata of the lower pool comes first. | 5 | f0 / 05 01 ALL 05 05 | m1 m4 m5 p5
upper pool | The Data Channel | Metadata of the upper pool comes last. | 4 | f0 / 02 01 ALL 02 04 | m1 m2 p2 m3 m4
payloads only | The Control Channel | No metadata comes. | 2 | f4 / 01 01 ALL 02 02 | p1 p2
notices only | The Data Channel; X18 | Only notices come. | 2 | b0 / 01 01 ALL 02 02 | n n n n
limit | The Control Channel; X15 | Of a payload above the limit comes a notice. | 1 | d0 / 01 01 ALL 00 01 01 | m1 n
largest payload | The Data Channel; X13 | Above the maximum: skip 05. | 1 | f0 / 01 01 00 00 01 01 | m1 s5
smallest payload | The Data Channel; X13 | Below the minimum: skip 04. | 1 | f0 / 01 01 {2 * MOST} 01 01 | m1 s4
"""


def _held(proposal: str, plan: str) -> Callable[[ProposalTalk], Awaitable[None]]:
    async def run(talk: ProposalTalk) -> None:
        if plan in ("m1 s5", "m1 n") and not talk.subject.size_of(1):
            raise NotDecided("the payload of entry 1 is empty, so that it is not above any size")
        first, rest = proposal.replace("ALL", ALL_SIZES).split("/")
        await proposed(talk, int(first, 16), rest)
        await talk.items(plan)

    return run


for _item, _source, _claim, _entries, _proposal, _plan in rows(_HELD):
    CHECKS(_item, _source, _claim, entries=int(_entries))(_held(_proposal, _plan))


@CHECKS("offset", "The Control Channel; E7", entries=1)
async def _offset(talk: ProposalTalk) -> None:
    """A proposal with an offset begins inside the payload."""
    entry, payload = talk.subject.entries[0]
    middle = entry.size // 2
    if not payload:
        raise NotDecided("the payload of entry 1 is empty")
    fields = (bytes.fromhex(f"01 {ALL_SIZES}"), entry.hash, b"\x01\x01", encode_varu64(middle))
    await proposed(talk, 0xF8, b"".join(fields))
    if await talk.payload(entry, middle) != payload[middle:]:
        raise Differs("other bytes", "the second half of the payload of entry 1")


@CHECKS("expected hash", "The Control Channel; C24", entries=2)
async def _expected_hash(talk: ProposalTalk) -> None:
    """A proposal with the right starting hash brings what follows."""
    await proposed(talk, 0xF0, bytes.fromhex(f"02 02 {ALL_SIZES}") + talk.subject.hash_of(1) + b"\x02\x02")
    await talk.items("m2 p2")


@CHECKS("code 85", "The Control Channel; C22, C24", entries=2)
async def _hash_differs(talk: ProposalTalk) -> None:
    """Another starting hash is answered with 85 and the peer's entry."""
    other = bytes.fromhex("0040") + talk.subject.random_bytes(64)
    rest = bytes.fromhex(f"02 02 {ALL_SIZES}") + other + b"\x02\x02"
    await talk.propose(0xF0, rest, log=talk.subject.held)
    answer = await talk.answer()
    if not isinstance(answer, Cancel) or answer.code not in (Code.HASH_DIFFERS, Code.FORKED):
        raise Differs(named(answer) or talk.silence(), "a cancellation with code 133")
    for entry in answer.entries:
        check_entry(entry, "the entry of a cancellation")
    if answer.code is Code.HASH_DIFFERS and answer.entries[0].hash != talk.subject.hash_of(1):
        raise Differs("a cancellation with another entry", "a cancellation with entry 1")


@CHECKS("no data without credit", "Running Bamboo-Point-2-Point Over Bymux; S4", entries=1)
async def _no_data(talk: ProposalTalk) -> None:
    """The peer keeps to our credit."""
    await talk.grant(9)
    await talk.propose(0xF0, f"01 01 {ALL_SIZES} 01 01", log=talk.subject.held)
    await talk.confirmed()
    if (item := await talk.item()) is not None:
        raise Differs(named(item), "9 bytes, which are no whole item")
    await talk.grant()
    await talk.items("m1 p1")


@CHECKS("overlap", "The Control Channel; C16", entries=1)
async def _overlap(talk: ProposalTalk) -> None:
    """Of overlapping proposals the one that starts later was never made."""
    talk.may_propose = True
    await talk.grant()
    await talk.control("00 04")
    await talk.propose(0xF0, f"01 01 {ALL_SIZES} 01 01", log=talk.subject.held)  # The peer may wait for our interest.
    theirs: ControlMessage | None = None
    while not (isinstance(theirs, Proposal) and theirs.log == talk.subject.held):
        theirs = await talk.answer()
        if theirs is None:
            raise NotDecided("the peer does not propose this log by itself")
    if theirs.end is not None and theirs.end <= theirs.start:
        raise NotDecided("the peer proposes a single entry, so that no proposal can start behind it and overlap")
    behind = encode_varu64(theirs.start + 1) + bytes.fromhex(f"01 {ALL_SIZES}")
    await talk.propose(0xE0, behind, log=theirs.log, number=2)
    while (answer := await talk.answer()) is not None:
        if isinstance(answer, Adjust | Cancel) and answer.id == 2:
            raise Differs(named(answer), "no answer to the proposal that starts later")
    if talk.is_closed:
        raise Differs(talk.silence(), "an open connection")
