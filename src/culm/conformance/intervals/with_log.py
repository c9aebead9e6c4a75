"""Checks about the entries of a log that the peer holds.

Specification: docs/specs/intervals.md; the sections that checks name without a page are those of the document.
"""

from collections.abc import Awaitable, Callable

from culm.bamboo import encode_varu64, path
from culm.conformance.check import SURVEYED, Differs, Listing, NotDecided, check_entry, rows
from culm.conformance.intervals.talk import IntervalTalk
from culm.intervals.items import entry_of_proof
from culm.intervals.messages import End, Lazy, Reason

CHECKS: Listing[IntervalTalk] = Listing()


@CHECKS("single entry", "Intervals; D36", entries=1)
async def _single(talk: IntervalTalk) -> None:
    """One entry comes with its payload, and the response ends by itself."""
    await talk.grant()
    await talk.ask("02 80", "01 00 00", log=talk.subject.held)
    await talk.items("m1 p1")
    await talk.nothing()


# An item, where it is written, the claim, entries of the log that it needs, the request, and the items that it brings.
_HELD = """
ascending | Intervals | From the least on, metadata first. | 3 | 02 00 / 01 00 03 00 | m1 p1 m2 p2 m3 p3
descending | Intervals; D5 | From the greatest on, metadata first. | 3 | 02 00 / 03 00 01 00 | m3 p3 m2 p2 m1 p1
lower pool | Intervals; D37 | The path to 1 comes first, without known links. | 5 | 02 80 / 05 ff 00 | m1 m4 m5 p5
part of a pool | Limiting Certificate Pool Metadata | A distance limits the pool. | 5 | 02 00 / 05 00 05 01 | m5 p5 m4
upper pool | Metadata-Only Intervals | Ascending metadata is the path to the spine. | 4 | 02 e0 / 02 ff | m2 m3 m4
metadata down | Metadata-Only Intervals | Descending metadata is the path to 1. | 5 | 02 c0 / 05 ff | m5 m4 m1
"""


def _held(request: str, plan: str) -> Callable[[IntervalTalk], Awaitable[None]]:
    async def run(talk: IntervalTalk) -> None:
        flags, rest = request.split("/")
        await talk.grant()
        await talk.ask(flags, rest, log=talk.subject.held)
        await talk.items(plan)

    return run


for _item, _source, _claim, _entries, _request, _plan in rows(_HELD):
    CHECKS(_item, _source, _claim, entries=int(_entries))(_held(_request, _plan))


@CHECKS("no data without credit", "Eager Response Messages", entries=1)
async def _no_data(talk: IntervalTalk) -> None:
    """The peer sends no byte of data more than granted."""
    await talk.ask("02 80", "01 00 00", log=talk.subject.held)
    for amount in (0, 7):
        await talk.grant(amount)
        await talk.data(amount)
        await talk.nothing()
    await talk.grant()
    await talk.items("m1 p1")


@CHECKS("lazy", "Lazy Response Messages; D43, D44", entries=3)
async def _lazy(talk: IntervalTalk) -> None:
    """A lazy request is answered by the number of items and a hash."""
    await talk.ask("03 00", "01 00 03 00", log=talk.subject.held)
    items = 0
    while items < 6:
        answer = await talk.message()
        if not isinstance(answer, Lazy):
            raise Differs(talk.named(answer), "an announcement of 6 items in all")
        items += answer.items
        if items == 6 and answer.hash != talk.subject.hash_of(3):
            raise Differs(f"the hash {(answer.hash or b'').hex()}", "the hash of entry 3")
    if items > 6:
        raise Differs(f"an announcement of {items} items", "an announcement of 6 items in all")


@CHECKS("resolved start, lazy", "Relativity; D14", entries=1)
async def _resolved_lazy(talk: IntervalTalk) -> None:
    """The first answer says what a relative start stands for."""
    await talk.ask("03 25", "00 00", log=talk.subject.held)
    answer = await talk.message()
    if not isinstance(answer, Lazy) or not answer.items or answer.start != 1:
        raise Differs(f"{talk.named(answer)} from {talk.start}", "an announcement of items from entry 1 on")


@CHECKS("newest", "Relativity; D14, D16", entries=1)
async def _newest(talk: IntervalTalk) -> None:
    """From the newest entries on, their number comes first, then their path."""
    await talk.grant()
    await talk.ask("02 2d", "01 00", log=talk.subject.held)
    start = await talk.resolved()
    await talk.items(" ".join(f"m{seq}" for seq in reversed(path(start, 1))) + f" p{start}", to_be_continued=True)


@CHECKS("newest, lazy", "Relativity; D14, D43", entries=1)
async def _newest_lazy(talk: IntervalTalk) -> None:
    """What is announced of the newest two entries begins at the number of the first one."""
    await talk.ask("03 2d", "01 00", log=talk.subject.held)
    answer = await talk.message()
    least = max(1, len(talk.subject.entries) - 1)
    if not isinstance(answer, Lazy) or not answer.items or (answer.start or 0) < least:
        raise Differs(
            f"{talk.named(answer)} from {talk.start}", f"an announcement of items from entry {least} or above"
        )


@CHECKS("largest payload", "Further Request Parameters; D21", entries=1)
async def _largest(talk: IntervalTalk) -> None:
    """A response ends before a payload above the maximum."""
    await _sized(talk, 0x08, talk.subject.size_of(1) - 1)


@CHECKS("smallest payload", "Further Request Parameters; D21", entries=1)
async def _smallest(talk: IntervalTalk) -> None:
    """A response ends before a payload below the minimum."""
    await _sized(talk, 0x10, talk.subject.size_of(1) + 1)


async def _sized(talk: IntervalTalk, flag: int, size: int) -> None:
    if size < 0:
        raise NotDecided("the payload of entry 1 is empty, so that no payload can be too large for a request")
    await talk.grant()
    await talk.ask(f"{flag | 2:02x} 80", encode_varu64(size) + bytes.fromhex("01 00 00"), log=talk.subject.held)
    await talk.items("m1")
    await talk.silent_or_over()


@CHECKS("immediate payload", "Further Request Parameters; D23", entries=1)
async def _immediate(talk: IntervalTalk) -> None:
    """It begins inside the payload, without metadata."""
    entry, payload = talk.subject.entries[0]
    if not payload:
        raise NotDecided("the payload of entry 1 is empty")
    await talk.grant()
    await talk.ask("06 80", encode_varu64(entry.size // 2) + bytes.fromhex("01 00 00"), log=talk.subject.held)
    if await talk.payload(entry, entry.size // 2) != payload[entry.size // 2 :]:
        raise Differs("other bytes", "the second half of the payload of entry 1")


@CHECKS("offset beyond, eager", "D24", entries=1)
async def _beyond_eager(talk: IntervalTalk) -> None:
    """An offset beyond the payload ends the response, with reason 11."""
    await talk.grant()
    await _beyond(talk, "06 80")


@CHECKS("offset beyond, lazy", "D24", entries=1)
async def _beyond_lazy(talk: IntervalTalk) -> None:
    """A lazy request with an offset beyond the payload ends with reason 11."""
    await _beyond(talk, "07 80")


async def _beyond(talk: IntervalTalk, flags: str) -> None:
    offset = encode_varu64(talk.subject.size_of(1) + 1)
    await talk.ask(flags, offset + bytes.fromhex("01 00 00"), log=talk.subject.held)
    await talk.end(Reason.OTHER)


@CHECKS("expected hash", "Partial Fork Proofs; D39", entries=2)
async def _expected_hash(talk: IntervalTalk) -> None:
    """A link whose value the request names is left out."""
    known = {1: talk.subject.hash_of(1)}
    await talk.grant()
    await talk.ask("02 88", bytes.fromhex("02 00 00") + known[1], log=talk.subject.held)
    await talk.items("m2 p2", known=known)


@CHECKS("other hash", "Partial Fork Proofs; D33, D39", entries=2)
async def _other_hash(talk: IntervalTalk) -> None:
    """A hash that is not the peer's ends the response, at best with its entry."""
    named = bytes.fromhex("0040") + talk.subject.random_bytes(64)
    await talk.grant()
    await talk.ask("02 88", bytes.fromhex("02 00 00") + named, log=talk.subject.held)
    answer = await talk.message()
    if not isinstance(answer, End) or answer.reason not in (Reason.PARTIAL_PROOF, Reason.OTHER):
        raise Differs(talk.named(answer), "an end of the response, with a partial fork proof or reason 11")
    for shown in answer.proof:
        entry = entry_of_proof(talk.subject.held, shown)
        check_entry(entry, "a proof")
        if entry.seq != 1 and 1 not in dict(entry.links):
            raise Differs(f"entry {entry.seq} as a proof", "entry 1, or one that links to it")


@CHECKS("adjustment", "Adjustment Messages; D66", entries=2)
async def _adjustment(talk: IntervalTalk) -> None:
    """A lazy request becomes an eager one, from the position given."""
    await talk.grant()
    await talk.ask("03 05", "01 00 00", log=talk.subject.held)
    answer = await talk.message()
    if not isinstance(answer, Lazy):
        raise Differs(talk.named(answer), "an announcement")
    await talk.adjust("f8 00 01 02")
    answer = await talk.message()
    if isinstance(answer, End) and answer.reason is Reason.OTHER:
        raise NotDecided("the peer ends responses at once, so that the adjustment came too late")
    if not isinstance(answer, End) or answer.reason is not Reason.CANCELLED:
        raise Differs(talk.named(answer), "an end of the response with reason 10")
    await talk.items("m2 p2", to_be_continued=True)


@CHECKS("end of the log", "Stored Fork Proofs; D35", entries=1)
async def _end_of_log(talk: IntervalTalk) -> None:
    """Behind the end of a log a response ends with reason 11."""
    last = talk.subject.entries[-1][0]
    if not last.is_end:
        raise NotDecided(f"the log does not end among its first {SURVEYED} entries")
    for number, flags in enumerate(("02 05", "03 05")):
        await talk.grant()
        await talk.ask(flags, encode_varu64(last.seq) + bytes.fromhex("00 00"), log=talk.subject.held, number=number)
        if number:
            await talk.message()
        else:
            await talk.items(f"m{last.seq} p{last.seq}", to_be_continued=True)
        await talk.end(Reason.OTHER)
