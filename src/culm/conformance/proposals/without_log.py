"""Checks that need no log.

Specification: docs/specs/proposals.md; the sections that checks name without a page are those of the document.
"""

from culm.conformance.check import Differs, Listing
from culm.conformance.proposals.talk import ALL_SIZES, CONTROL, ProposalTalk, named
from culm.proposals.data import Marker
from culm.proposals.messages import Adjust
from culm.wire.bymux import WRITE, packet

CHECKS: Listing[ProposalTalk] = Listing()


@CHECKS("setup", "Running Bamboo-Point-2-Point Over Bymux; S2")
async def _setup(talk: ProposalTalk) -> None:
    """The peer sends its setup: flags and two windows."""


@CHECKS("ignored bits", "Running Bamboo-Point-2-Point Over Bymux", opening=lambda _: b"\xfc\0\0")
async def _ignored_bits(talk: ProposalTalk) -> None:
    """Six bits of the flags are ignored."""
    await talk.wait_for_credit()
    await talk.propose(0xF0, f"01 01 {ALL_SIZES} 05 05")
    await talk.cancelled()


@CHECKS("grants credit", "The Control Channel; C1")
async def _grants(talk: ProposalTalk) -> None:
    """The peer grants credit for proposals."""
    await talk.wait_for_credit()
    if not talk.credit:
        raise Differs(talk.silence(), "a grant of proposal credit")


@CHECKS("grants data credit", "Running Bamboo-Point-2-Point Over Bymux; S4")
async def _grants_data(talk: ProposalTalk) -> None:
    """The data channel has credit."""
    while not talk.data_credit:
        if not await talk.take():
            raise Differs(talk.silence(), "credit for stream 1")


@CHECKS("ping", "bymux; S5")
async def _ping(talk: ProposalTalk) -> None:
    """A ping is answered with a pong."""
    await talk.send(bytes.fromhex("50"))
    while not talk.pongs:
        if not await talk.take():
            raise Differs(talk.silence(), "a pong")


@CHECKS("unknown log", "The Control Channel; C7, C26")
async def _unknown_log(talk: ProposalTalk) -> None:
    """A proposal of a log that nobody holds is answered."""
    await talk.grant()
    await talk.propose(0xF0, f"01 01 {ALL_SIZES} 05 05")
    answer = await talk.answer()
    if answer is None or (isinstance(answer, Adjust) and answer.eagerness is None):
        raise Differs(named(answer) or talk.silence(), "a confirmation with an eagerness, or a cancellation")
    item = await talk.item()
    if item is not None and not isinstance(item, Marker):
        raise Differs(named(item), "no items")


@CHECKS("cancellation", "The Control Channel; C19, M1")
async def _cancellation(talk: ProposalTalk) -> None:
    """A cancelled proposal is cancelled by the peer on both channels."""
    await talk.propose(0xF0, f"01 01 {ALL_SIZES} 05 05")
    await talk.cancelled()


@CHECKS("crossing cancellations", "The Control Channel; C19")
async def _crossing(talk: ProposalTalk) -> None:
    """A cancellation that crosses the peer's is enough."""
    await talk.propose(0xF0, f"01 01 {ALL_SIZES} 05 05")
    await talk.propose(0xF0, f"01 01 {ALL_SIZES} 05 05", number=2)
    await talk.cancelled(2)
    await talk.cancelled(0)


@CHECKS("freed ids", "The Control Channel; C27")
async def _freed_ids(talk: ProposalTalk) -> None:
    """The id of a proposal that is cancelled in full can be used again."""
    for _ in range(2):
        await talk.propose(0xF0, f"01 01 {ALL_SIZES} 05 05")
        await talk.cancelled()


@CHECKS("byte by byte", "bymux; E12")
async def _byte_by_byte(talk: ProposalTalk) -> None:
    """Messages ignore the borders of packets: here each has one byte."""
    await talk.wait_for_credit()
    for byte in talk.proposal(0xF0, f"01 01 {ALL_SIZES} 05 05"):
        await talk.send_slowly(packet(WRITE, CONTROL, 1) + bytes((byte,)))
    await talk.cancelled()


@CHECKS("no proposal without credit", "The Control Channel; C1")
async def _no_proposal(talk: ProposalTalk) -> None:
    """The peer proposes nothing while it has no credit."""
    await talk.grant()
    await talk.propose(0xF0, f"01 01 {ALL_SIZES} 05 05", log=talk.subject.log)
    while await talk.answer() is not None:
        pass
    if talk.is_closed:
        raise Differs(talk.silence(), "an open connection without a proposal")
