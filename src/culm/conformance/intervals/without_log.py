"""Checks that need no log.

Specification: docs/specs/intervals.md; the sections that checks name without a page are those of the document.
"""

from culm.conformance.check import Differs, Listing, NotDecided
from culm.conformance.intervals.talk import IntervalTalk
from culm.intervals.messages import End, Reason

CHECKS: Listing[IntervalTalk] = Listing()


@CHECKS("grants credit", "Global Connection State; D78")
async def _grants(talk: IntervalTalk) -> None:
    """The peer grants request credit without being asked."""


@CHECKS("unknown log", "Intervals; D10, D54")
async def _unknown_log(talk: IntervalTalk) -> None:
    """A request for a log that nobody holds brings no items."""
    await talk.grant()
    await talk.ask("02 00", "01 00 05 00")
    await talk.silent_or_over()


@CHECKS("unknown log, newest", "Relativity; D10")
async def _unknown_newest(talk: IntervalTalk) -> None:
    """An offset from the newest payload of no payloads brings no items."""
    await talk.ask("03 2d", "63 00")
    await talk.silent_or_over()


@CHECKS("cancellation", "Canceling Requests; D63")
async def _cancellation(talk: IntervalTalk) -> None:
    """A cancelled response ends, with reason 10."""
    await talk.ask("02 00", "01 00 05 00")
    if isinstance(await talk.message(), End):
        raise NotDecided("the peer ends what it cannot answer at once, so that nothing is left to cancel")
    await talk.send(bytes.fromhex("d0 00"))
    await talk.end(Reason.CANCELLED)


@CHECKS("cancellation without credit", "Canceling Requests; D63")
async def _cancellation_beside(talk: IntervalTalk) -> None:
    """Neither credit nor items are needed to end."""
    for number in range(2):
        await talk.ask("02 20", "00 05 00", number=number)
    await talk.over(1)
    await talk.over(0)


@CHECKS("freed ids", "End Response Messages; D57")
async def _freed_ids(talk: IntervalTalk) -> None:
    """The id of a response that has ended can be used again."""
    for _ in range(2):
        await talk.ask("02 00", "01 00 05 00")
        await talk.over()


@CHECKS("late cancellation", "Canceling Requests; D61")
async def _late_cancellation(talk: IntervalTalk) -> None:
    """A cancellation that crosses the end it asks for is ignored."""
    await talk.ask("02 00", "01 00 05 00")
    await talk.over()
    await talk.send(bytes.fromhex("d0 00"))
    await talk.ask("02 00", "01 00 05 00", number=1)
    await talk.over(1)


@CHECKS("byte by byte", "The Actual Protocol")
async def _byte_by_byte(talk: IntervalTalk) -> None:
    """Messages can come in any pieces: here one byte at a time."""
    await talk.send_slowly(talk.request("3a 2d", "0a f903e8 64 00"))
    await talk.over()


@CHECKS("ignored bits", "Request Messages")
async def _ignored_bits(talk: IntervalTalk) -> None:
    """Bits of the second byte that may be set arbitrarily are ignored."""
    for number, (kind, rest) in enumerate((("81", "01 00 00"), ("af", "00"), ("c7", "05 00"), ("e7", "05 00"))):
        await talk.ask(f"03 {kind}", rest, number=number)
        await talk.over(number)


@CHECKS("grants of zero", "Request Credit Messages; D76")
async def _grants_of_zero(talk: IntervalTalk) -> None:
    """A grant of zero is valid and changes nothing."""
    await talk.send(bytes.fromhex("b0 00 c0 00"))
    await talk.ask("02 00", "01 00 05 00")
    await talk.over()


@CHECKS("no request without credit", "Request Messages")
async def _no_request(talk: IntervalTalk) -> None:
    """The peer makes no request while it has no credit for one."""
    await talk.grant()
    await talk.ask("02 00", "01 00 05 00", log=talk.subject.log)
    while await talk.message() is not None:
        pass
    if talk.is_closed:
        raise Differs(talk.silence(), "an open connection without a request")
