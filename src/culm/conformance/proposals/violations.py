"""Violations: each has to end the connection.

Specification: docs/specs/proposals.md; the sections that checks name without a page are those of the document.
"""

from collections.abc import Awaitable, Callable

from culm.conformance.check import Listing, NotDecided, rows
from culm.conformance.proposals.talk import ALL_SIZES, MOST, ProposalTalk

_MOST_PROPOSALS = 4096
"""Proposals that a check makes to use up the peer's credit."""

CHECKS: Listing[ProposalTalk] = Listing()


# An item, where it is written, and the bytes that have to end the connection: on the control or the data channel, or as
# packets. LOG stands for a log that nobody holds, ALL for all sizes.
_VIOLATIONS = f"""
unknown byte of control | Encodings, invariants; E4 | control | 88 00
unknown byte of data | Encodings, invariants | data | 01
credit above 2^64 - 1 | Encodings, invariants; C1 | control | 00 {MOST} 00 01
odd id of the caller | Encodings, invariants | control | f0 01 LOG 01 01 ALL 05 05
id in use | Encodings, invariants | control | f0 00 LOG 01 01 ALL 05 05 f0 00 LOG 01 01 ALL 05 05
proposal of entry 0 | Encodings, invariants | control | f0 00 LOG 00 01 ALL 05 05
end below the start | Encodings, invariants | control | f0 00 LOG 05 01 ALL 04 04
upper pool below the end | Encodings, invariants | control | f0 00 LOG 01 01 ALL 05 04
lower pool above the start | Encodings, invariants | control | f0 00 LOG 04 05 ALL 0040 {64 * "00"} 05 05
hash of another function | E2 | control | f0 00 LOG 02 02 ALL 0140 {64 * "00"} 05 05
adjustment of no proposal | Encodings, invariants | control | 60 02
cancellation of no proposal | Encodings, invariants | control | 80 02
second cancellation | Encodings, invariants; C19 | control | f0 00 LOG 01 01 ALL 05 05 80 00 80 00
adjustment behind a cancellation | Encodings, invariants; C13 | control | f0 00 LOG 01 01 ALL 05 05 80 00 60 00
lower minimum | Encodings, invariants; C12 | control | f0 00 LOG 01 01 0a {MOST} 05 05 02 00 09
higher maximum | Encodings, invariants; C12 | control | f0 00 LOG 01 01 00 0a 05 05 01 00 0b
adjusted end below the start | Encodings, invariants; C9 | control | f0 00 LOG 05 01 ALL 09 09 08 00 04
switch to no proposal | Encodings, invariants; X3 | data | 00 02
item before a switch | The Data Channel; X2 | data | 02
marker of no proposal | Encodings, invariants; M2 | data | 20 01
unknown packet | bymux | packets | c0
unknown stream | bymux; S5 | packets | 20 05 01 00
"""
_LOG = 32 * "07" + "00"


def _violation(channel: str, message: str) -> Callable[[ProposalTalk], Awaitable[None]]:
    async def run(talk: ProposalTalk) -> None:
        await talk.wait_for_credit()
        content = bytes.fromhex(message.replace("LOG", _LOG).replace("ALL", ALL_SIZES))
        await {"control": talk.control, "data": talk.data, "packets": talk.send}[channel](content)
        await talk.closes()

    return run


for _item, _source, _channel, _message in rows(_VIOLATIONS):
    CHECKS(_item, _source, f"The connection ends: {_item}.", breaks=True)(_violation(_channel, _message))


@CHECKS("proposal without credit", "Encodings, invariants", breaks=True)
async def _without_credit(talk: ProposalTalk) -> None:
    """A proposal without credit ends the connection."""
    await talk.wait_for_credit()
    if talk.credit > _MOST_PROPOSALS:
        raise NotDecided(f"the peer takes {talk.credit} proposals; more than {_MOST_PROPOSALS} are not used up here")
    proposals = (talk.proposal(0xF0, f"01 01 {ALL_SIZES} 05 05", number=2 * each) for each in range(talk.credit + 1))
    await talk.control(b"".join(proposals))
    talk.credit, talk.may_propose = 0, True
    while await talk.answer() is not None:
        pass
    if talk.credit and not talk.is_closed:
        raise NotDecided("the peer refuses proposals of a log that it lacks, and gives their credit back as they come")
    await talk.closes()
