"""Checks of peers that speak Point-2-Point with intervals.

Requests are written here by hand, flag by flag, because a fault in Culm's own encoder would otherwise be taken for one
of the peer. What the peer sends is read by Culm's decoders. All of the peer's requests are violations, because no check
grants it credit for any.

Specification: docs/specs/intervals.md; the sections that checks name without a page are those of the document.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from culm.bamboo import MAX_U64, Entry, encode_varu64, path
from culm.conformance.check import (
    MOST_PAYLOAD,
    SURVEYED,
    Differs,
    Line,
    Listing,
    NotDecided,
    Refused,
    Subject,
    Suite,
    Talk,
    check_entry,
    check_payload,
    rows,
)
from culm.errors import EncodingError, Truncated
from culm.intervals import messages
from culm.intervals.codec import MAX_MESSAGE, pull_message
from culm.intervals.interval import Request
from culm.intervals.items import decode_item, entry_of_proof
from culm.intervals.messages import End, Lazy, Reason
from culm.types import Log

_ENOUGH = 2 * MOST_PAYLOAD + SURVEYED * 1024
"""Bytes of item data to grant where a check is not about credit."""
_MOST_REQUESTS = 4096
"""Requests that a check sends to use up the peer's credit."""


@dataclass(slots=True)
class _Asked:
    """A request of ours. ``starts``: the next answer carries the resolved start. ``items``: counted by lazy answers."""

    starts: bool
    immediate: bool
    items: int = 0


@dataclass(frozen=True, slots=True)
class Data:
    """An eager answer with its bytes."""

    request: int
    data: bytes
    start: int | None


class IntervalTalk(Talk):
    """A conversation by intervals. ``credit``: requests that we may send; ``start``: what a relative start became."""

    def __init__(self, line: Line, subject: Subject) -> None:
        super().__init__(line, subject)
        self.credit = 0
        self.start: int | None = None
        self._granted = 0
        self._active = 0
        self._asked: dict[int, _Asked] = {}
        self._items = bytearray()  # item data that is not decoded yet

    # -- what we send ----------------------------------------------------------------------------------------------

    def request(self, flags: str, rest: str | bytes, *, log: Log | None = None, number: int = 0) -> bytes:
        """A request: two bytes of flags, the id, the log (default: one that nobody holds), and what follows, in hex."""
        first, kind = bytes.fromhex(flags)
        author, log_id = log or (self.subject.random_bytes(32), 0)
        relative = kind & 0x20 and kind >> 6 in (0, 2)
        self._asked[number] = _Asked(bool(relative), bool(first & 4))
        rest = bytes.fromhex(rest) if isinstance(rest, str) else rest
        return bytes((first, kind)) + encode_varu64(number) + author + encode_varu64(log_id) + rest

    async def ask(self, flags: str, rest: str | bytes, *, log: Log | None = None, number: int = 0) -> None:
        """Send a request, if the peer's credit allows it."""
        if not self.credit:
            raise NotDecided("the peer grants too few requests for this check")
        self.credit -= 1
        await self.send(self.request(flags, rest, log=log, number=number))

    async def adjust(self, message: str) -> None:
        """Send an adjustment, whose second and third byte are the old and the new id."""
        data = bytes.fromhex(message)
        self._asked[data[2]] = _Asked(starts=False, immediate=False)
        await self.send(data)

    async def grant(self, amount: int = _ENOUGH) -> None:
        """Let the peer send so many bytes of item data."""
        self._granted += amount
        await self.send(b"\xc0" + encode_varu64(amount))

    # -- what the peer sends ---------------------------------------------------------------------------------------

    def starts(self) -> bool:
        """Whether the next answer carries a resolved start; for the reader of messages."""
        asked = self._asked.get(self._active)
        return asked is not None and asked.starts

    def has_hash(self, items: int, following: bytes) -> bool:  # noqa: ARG002 - the position decides
        """Whether a lazy answer over so many more items has a hash (D44); for the reader of messages."""
        asked = self._asked.get(self._active)
        return asked is not None and asked.items + items > asked.immediate

    async def message(self, *, or_credit: bool = False) -> Data | Lazy | End | None:
        """The next answer; None if none comes. Grants and changes of the active request are dealt with here.

        ``or_credit``: return, with None, once we may make a request.
        """
        while not (or_credit and self.credit):
            try:
                message, body = self._pull()
            except Truncated:
                if not await self.more():
                    return None
                continue
            except EncodingError as error:
                raise Differs(f"bytes that are no message: {error}", "messages that can be decoded") from None
            if (answer := self._take(message, body)) is not None:
                self.line.be_patient()
                return answer
        return None

    def _pull(self) -> tuple[messages.Message, bytes]:
        message, size = pull_message(bytes(self.unread[:MAX_MESSAGE]), 0, self)
        end = size + (message.count if isinstance(message, messages.Eager) else 0)
        if len(self.unread) < end:
            raise Truncated("the data of an answer is cut off", size)
        body = bytes(self.unread[size:end])
        del self.unread[:end]
        return message, body

    def _take(self, message: messages.Message, body: bytes) -> Data | Lazy | End | None:
        match message:
            case messages.RequestCredit(amount):
                self.credit += amount
            case messages.Activate(change):
                self._active += change
                self._check_active("the peer activated")
            case messages.Eager(_, start):
                self._check_active("the peer sent data for")
                self._granted -= len(body)
                if self._granted < 0:
                    raise Differs(f"{-self._granted} bytes of data more than granted", "no more data than granted")
                return Data(self._active, body, self._started(start))
            case Lazy(items, _, _, start):
                self._check_active("the peer announced items for")
                self._asked[self._active].items += items
                self._started(start)
                return message
            case End(_, _, grants, activates):
                self._check_active("the peer ended")
                del self._asked[self._active]
                self.credit += grants
                self._active = self._active if activates is None else activates
                return message
            case Request():
                raise Differs("a request, although we granted no credit for one", "no request without credit")
            case messages.Cancel() | messages.Adjust():
                raise Differs("a cancellation or adjustment of a request that the peer never made", "answers only")
        return None

    def _check_active(self, what: str) -> None:
        if not 0 <= self._active <= MAX_U64 or self._active not in self._asked:
            raise Differs(f"{what} request {self._active}, which is not open", "answers to open requests only")

    def _started(self, start: int | None) -> int | None:
        self._asked[self._active].starts = False
        self.start = self.start if start is None else start
        return start

    async def end(self, *reasons: Reason) -> None:
        """Expect that the response ends now, for one of these reasons."""
        wanted = "an end of the response with reason " + " or ".join(f"{reason:02b}" for reason in reasons)
        answer = await self.message()
        while isinstance(answer, Lazy) and answer.items == 0 == answer.trailing:  # Culm says that there is nothing.
            answer = await self.message()
        if not isinstance(answer, End):
            raise Differs(self.named(answer), wanted)
        if answer.reason not in reasons:
            raise Differs(f"an end of the response with reason {answer.reason:02b}", wanted)

    async def nothing(self) -> None:
        """Expect that no answer comes, and the connection stays."""
        answer = await self.message()
        if answer is not None or self.is_closed:
            raise Differs(self.named(answer), "no answer, and an open connection")

    async def silent_or_over(self) -> None:
        """Expect no items: silence, an announcement of none, or an end because nothing is held."""
        while (answer := await self.message()) is not None:
            if isinstance(answer, Data) and not answer.data:
                continue
            if isinstance(answer, Lazy) and answer.items == 0 == answer.trailing:
                continue
            if isinstance(answer, End) and answer.reason is Reason.OTHER:
                return
            raise Differs(self.named(answer), "no items")
        if self.is_closed:
            raise Differs(self.silence(), "no items, and an open connection")

    async def over(self, number: int = 0) -> None:
        """Cancel a request, and expect that its response ends, by the cancellation or by itself."""
        await self.send(b"\xd0" + encode_varu64(number))
        while number in self._asked:
            if await self.message() is None:
                raise Differs(self.silence(), "an end of the response")

    def named(self, answer: Data | Lazy | End | None) -> str:
        """An answer in words, for the report."""
        match answer:
            case Data(request, data):
                return f"{len(data)} bytes of data for request {request}"
            case Lazy(items, trailing):
                return f"an announcement of {items} items and {trailing} bytes"
            case End(reason):
                return f"an end of the response with reason {reason:02b}"
        return self.silence()

    # -- items -----------------------------------------------------------------------------------------------------

    async def items(
        self, plan: str, *, known: dict[int, bytes] | None = None, to_be_continued: bool = False
    ) -> list[Entry]:
        """Expect these items, such as ``m1 p1 m4``, correctly signed, and nothing behind them; their entries.

        ``known``: hashes that the request named. ``to_be_continued``: more items may follow.
        """
        hashes = dict(known or {})
        entries: list[Entry] = []
        for word in plan.split():
            seq = int(word[1:])
            if word[0] == "m":
                entries.append(await self.entry(seq, hashes))
                hashes[seq] = entries[-1].hash
            else:
                entry = next((entry for entry in entries if entry.seq == seq), None)
                await self.payload(entry or self.subject.entries[seq - 1][0])
        if self._items and not to_be_continued:
            raise Differs(f"{len(self._items)} bytes behind the last item", f"the items {plan}")
        return entries

    async def entry(self, seq: int, hashes: dict[int, bytes]) -> Entry:
        """Expect the metadata of an entry, signed; ``hashes`` are those of the links that are left out."""
        while True:
            try:
                entry, size, _ = decode_item(self._items, 0, self.subject.held, seq, hashes.get)
            except Truncated:
                await self._more_items(f"m_{seq}")
                continue
            except EncodingError as error:
                raise Differs(f"bytes that are not m_{seq}: {error}", f"m_{seq}") from None
            del self._items[:size]
            check_entry(entry, f"m_{seq}")
            return entry

    async def payload(self, entry: Entry, begin: int = 0) -> bytes:
        """Expect the bytes of a payload, from an offset on."""
        if entry.size > MOST_PAYLOAD:
            raise NotDecided(
                f"the payload of entry {entry.seq} has {entry.size} bytes; at most {MOST_PAYLOAD} are read"
            )
        while len(self._items) < entry.size - begin:
            await self._more_items(f"p_{entry.seq}")
        payload = bytes(self._items[: entry.size - begin])
        del self._items[: len(payload)]
        if not begin:
            check_payload(entry, payload)
        return payload

    async def resolved(self) -> int:
        """Expect data, and the number that a relative start stands for."""
        await self._more_items("data, and the number that the start stands for")
        if self.start is None:
            raise Differs("data without a resolved start", "the number that the start stands for")
        return self.start

    async def data(self, amount: int) -> None:
        """Expect so many bytes of item data."""
        until = len(self._items) + amount
        while len(self._items) < until:
            await self._more_items(f"{amount} bytes of data")

    async def _more_items(self, what: str) -> None:
        answer = await self.message()
        if not isinstance(answer, Data):
            raise Differs(self.named(answer), what)
        self._items += answer.data


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


_CHECKS: Listing[IntervalTalk] = Listing()


# -- without a log -------------------------------------------------------------------------------------------------


@_CHECKS("grants credit", "Global Connection State; D78")
async def _grants(talk: IntervalTalk) -> None:
    """The peer grants request credit without being asked."""


@_CHECKS("unknown log", "Intervals; D10, D54")
async def _unknown_log(talk: IntervalTalk) -> None:
    """A request for a log that nobody holds brings no items."""
    await talk.grant()
    await talk.ask("02 00", "01 00 05 00")
    await talk.silent_or_over()


@_CHECKS("unknown log, newest", "Relativity; D10")
async def _unknown_newest(talk: IntervalTalk) -> None:
    """An offset from the newest payload of no payloads brings no items."""
    await talk.ask("03 2d", "63 00")
    await talk.silent_or_over()


@_CHECKS("cancellation", "Canceling Requests; D63")
async def _cancellation(talk: IntervalTalk) -> None:
    """A cancelled response ends, with reason 10."""
    await talk.ask("02 00", "01 00 05 00")
    if isinstance(await talk.message(), End):
        raise NotDecided("the peer ends what it cannot answer at once, so that nothing is left to cancel")
    await talk.send(bytes.fromhex("d0 00"))
    await talk.end(Reason.CANCELLED)


@_CHECKS("cancellation without credit", "Canceling Requests; D63")
async def _cancellation_beside(talk: IntervalTalk) -> None:
    """Neither credit nor items are needed to end."""
    for number in range(2):
        await talk.ask("02 20", "00 05 00", number=number)
    await talk.over(1)
    await talk.over(0)


@_CHECKS("freed ids", "End Response Messages; D57")
async def _freed_ids(talk: IntervalTalk) -> None:
    """The id of a response that has ended can be used again."""
    for _ in range(2):
        await talk.ask("02 00", "01 00 05 00")
        await talk.over()


@_CHECKS("late cancellation", "Canceling Requests; D61")
async def _late_cancellation(talk: IntervalTalk) -> None:
    """A cancellation that crosses the end it asks for is ignored."""
    await talk.ask("02 00", "01 00 05 00")
    await talk.over()
    await talk.send(bytes.fromhex("d0 00"))
    await talk.ask("02 00", "01 00 05 00", number=1)
    await talk.over(1)


@_CHECKS("byte by byte", "The Actual Protocol")
async def _byte_by_byte(talk: IntervalTalk) -> None:
    """Messages can come in any pieces: here one byte at a time."""
    await talk.send_slowly(talk.request("3a 2d", "0a f903e8 64 00"))
    await talk.over()


@_CHECKS("ignored bits", "Request Messages")
async def _ignored_bits(talk: IntervalTalk) -> None:
    """Bits of the second byte that may be set arbitrarily are ignored."""
    for number, (kind, rest) in enumerate((("81", "01 00 00"), ("af", "00"), ("c7", "05 00"), ("e7", "05 00"))):
        await talk.ask(f"03 {kind}", rest, number=number)
        await talk.over(number)


@_CHECKS("grants of zero", "Request Credit Messages; D76")
async def _grants_of_zero(talk: IntervalTalk) -> None:
    """A grant of zero is valid and changes nothing."""
    await talk.send(bytes.fromhex("b0 00 c0 00"))
    await talk.ask("02 00", "01 00 05 00")
    await talk.over()


@_CHECKS("no request without credit", "Request Messages")
async def _no_request(talk: IntervalTalk) -> None:
    """The peer makes no request while it has no credit for one."""
    await talk.grant()
    await talk.ask("02 00", "01 00 05 00", log=talk.subject.log)
    while await talk.message() is not None:
        pass
    if talk.is_closed:
        raise Differs(talk.silence(), "an open connection without a request")


# -- with a log ----------------------------------------------------------------------------------------------------


@_CHECKS("single entry", "Intervals; D36", entries=1)
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
    _CHECKS(_item, _source, _claim, entries=int(_entries))(_held(_request, _plan))


@_CHECKS("no data without credit", "Eager Response Messages", entries=1)
async def _no_data(talk: IntervalTalk) -> None:
    """The peer sends no byte of data more than granted."""
    await talk.ask("02 80", "01 00 00", log=talk.subject.held)
    for amount in (0, 7):
        await talk.grant(amount)
        await talk.data(amount)
        await talk.nothing()
    await talk.grant()
    await talk.items("m1 p1")


@_CHECKS("lazy", "Lazy Response Messages; D43, D44", entries=3)
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


@_CHECKS("resolved start, lazy", "Relativity; D14", entries=1)
async def _resolved_lazy(talk: IntervalTalk) -> None:
    """The first answer says what a relative start stands for."""
    await talk.ask("03 25", "00 00", log=talk.subject.held)
    answer = await talk.message()
    if not isinstance(answer, Lazy) or not answer.items or answer.start != 1:
        raise Differs(f"{talk.named(answer)} from {talk.start}", "an announcement of items from entry 1 on")


@_CHECKS("newest", "Relativity; D14, D16", entries=1)
async def _newest(talk: IntervalTalk) -> None:
    """From the newest entries on, their number comes first, then their path."""
    await talk.grant()
    await talk.ask("02 2d", "01 00", log=talk.subject.held)
    start = await talk.resolved()
    await talk.items(" ".join(f"m{seq}" for seq in reversed(path(start, 1))) + f" p{start}", to_be_continued=True)


@_CHECKS("newest, lazy", "Relativity; D14, D43", entries=1)
async def _newest_lazy(talk: IntervalTalk) -> None:
    """What is announced of the newest two entries begins at the number of the first one."""
    await talk.ask("03 2d", "01 00", log=talk.subject.held)
    answer = await talk.message()
    least = max(1, len(talk.subject.entries) - 1)
    if not isinstance(answer, Lazy) or not answer.items or (answer.start or 0) < least:
        raise Differs(
            f"{talk.named(answer)} from {talk.start}", f"an announcement of items from entry {least} or above"
        )


@_CHECKS("largest payload", "Further Request Parameters; D21", entries=1)
async def _largest(talk: IntervalTalk) -> None:
    """A response ends before a payload above the maximum."""
    await _sized(talk, 0x08, talk.subject.size_of(1) - 1)


@_CHECKS("smallest payload", "Further Request Parameters; D21", entries=1)
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


@_CHECKS("immediate payload", "Further Request Parameters; D23", entries=1)
async def _immediate(talk: IntervalTalk) -> None:
    """It begins inside the payload, without metadata."""
    entry, payload = talk.subject.entries[0]
    if not payload:
        raise NotDecided("the payload of entry 1 is empty")
    await talk.grant()
    await talk.ask("06 80", encode_varu64(entry.size // 2) + bytes.fromhex("01 00 00"), log=talk.subject.held)
    if await talk.payload(entry, entry.size // 2) != payload[entry.size // 2 :]:
        raise Differs("other bytes", "the second half of the payload of entry 1")


@_CHECKS("offset beyond, eager", "D24", entries=1)
async def _beyond_eager(talk: IntervalTalk) -> None:
    """An offset beyond the payload ends the response, with reason 11."""
    await talk.grant()
    await _beyond(talk, "06 80")


@_CHECKS("offset beyond, lazy", "D24", entries=1)
async def _beyond_lazy(talk: IntervalTalk) -> None:
    """A lazy request with an offset beyond the payload ends with reason 11."""
    await _beyond(talk, "07 80")


async def _beyond(talk: IntervalTalk, flags: str) -> None:
    offset = encode_varu64(talk.subject.size_of(1) + 1)
    await talk.ask(flags, offset + bytes.fromhex("01 00 00"), log=talk.subject.held)
    await talk.end(Reason.OTHER)


@_CHECKS("expected hash", "Partial Fork Proofs; D39", entries=2)
async def _expected_hash(talk: IntervalTalk) -> None:
    """A link whose value the request names is left out."""
    known = {1: talk.subject.hash_of(1)}
    await talk.grant()
    await talk.ask("02 88", bytes.fromhex("02 00 00") + known[1], log=talk.subject.held)
    await talk.items("m2 p2", known=known)


@_CHECKS("other hash", "Partial Fork Proofs; D33, D39", entries=2)
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


@_CHECKS("adjustment", "Adjustment Messages; D66", entries=2)
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


@_CHECKS("end of the log", "Stored Fork Proofs; D35", entries=1)
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


# -- violations ----------------------------------------------------------------------------------------------------


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
    _CHECKS(_item, _source, f"The connection ends: {_item}.", breaks=True)(_violation(_message))


@_CHECKS("request without credit", "Request Messages", breaks=True)
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


SUITE = Suite(IntervalTalk, _begin, _survey, tuple(_CHECKS.checks))
