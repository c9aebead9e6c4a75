"""Violations: each has to end the connection.

Specification: docs/specs/intervals.md; the sections that checks name without a page are those of the document.
"""

from collections.abc import Awaitable, Callable

from culm.conformance.check import Differs, Listing, NotDecided, rows
from culm.conformance.intervals.talk import IntervalTalk

_MOST_REQUESTS = 4096
"""Requests that a check sends to use up the peer's credit."""

CHECKS: Listing[IntervalTalk] = Listing()


# An item, where it is written, and the bytes that have to end the connection. LOG stands for a log that nobody holds.
_VIOLATIONS = f"""
unknown first byte | Messages; D73 | 81
unknown bits of a grant | Messages; D73 | b1 01
unknown kind of activation | Messages; D73 | e4 00
fork mode 11 | Request Messages | 62 00 00 LOG 01 00 05 00
interval form 01 | Request Messages | 02 40 00 LOG 01 00 05 00
single form 01 | Request Messages | 02 90 00 LOG 01 00 00
start form 11x | Request Messages | 02 30 00 LOG 01 00 05 00
end form 11x | Request Messages | 02 06 00 LOG 01 00 05 00
request of entry 0 | D4 | 02 00 00 LOG 00 00 05 00
immediate request with a relative start | Further Request Parameters; D23 | 06 25 00 LOG 00 00 00
hash of another function | Messages; D75 | 02 88 00 LOG 02 00 00 01 40 {64 * "00"}
data for no request | Eager Response Messages; D58 | 80 00
end of no request | End Response Messages; D58 | a8
cancellation of no request | Cancellation Messages; D61 | d0 05
activation of no request | Active Request Messages; D59 | e0 01
active id below 0 | Active Request Messages; D59 | e8 01
adjustment of no request | Adjustment Messages; D71 | f0 05 06
adjustment to the same id | D71 | 03 00 00 LOG 01 00 05 00 f0 00 00
request credit above 2^64 - 1 | Request Credit Messages; D76 | b0 {9 * "ff"} b0 01
response credit above 2^64 - 1 | Response Credit Messages; D76 | c0 {9 * "ff"} c0 01
"""
_LOG = 32 * "07" + "00"


def _violation(message: str) -> Callable[[IntervalTalk], Awaitable[None]]:
    async def run(talk: IntervalTalk) -> None:
        await talk.send(bytes.fromhex(message.replace("LOG", _LOG)))
        await talk.closes()

    return run


for _item, _source, _message in rows(_VIOLATIONS):
    CHECKS(_item, _source, f"The connection ends: {_item}.", breaks=True)(_violation(_message))


@CHECKS("request without credit", "Request Messages", breaks=True)
async def _without_credit(talk: IntervalTalk) -> None:
    """A request without credit ends the connection."""
    if talk.credit > _MOST_REQUESTS:
        raise NotDecided(f"the peer grants {talk.credit} requests; more than {_MOST_REQUESTS} are not used up here")
    author = talk.subject.random_bytes(32), 0
    await talk.send(
        b"".join(talk.request("02 00", "01 00 05 00", log=author, number=number) for number in range(talk.credit + 1))
    )
    if await talk.message() is not None:
        raise NotDecided("the peer answers at once that it holds nothing, which gives credit back")
    if not talk.is_closed:
        raise Differs("the connection stays open", "the peer ends the connection")
