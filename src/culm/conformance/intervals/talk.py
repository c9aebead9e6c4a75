"""A conversation by intervals.

Requests are written here by hand, flag by flag, because a fault in Culm's own encoder would otherwise be taken for one
of the peer. What the peer sends is read by Culm's decoders. All of the peer's requests are violations, because no check
grants it credit for any.

Specification: docs/specs/intervals.md.
"""

from dataclasses import dataclass

from culm.bamboo import MAX_U64, Entry, encode_varu64
from culm.conformance.check import (
    MOST_PAYLOAD,
    SURVEYED,
    Differs,
    Line,
    NotDecided,
    Subject,
    Talk,
    check_entry,
    check_payload,
)
from culm.errors import EncodingError, Truncated
from culm.intervals import messages
from culm.intervals.codec import MAX_MESSAGE, pull_message
from culm.intervals.interval import Request
from culm.intervals.items import decode_item
from culm.intervals.messages import End, Lazy, Reason
from culm.types import Log

_ENOUGH = 2 * MOST_PAYLOAD + SURVEYED * 1024
"""Bytes of item data to grant where a check is not about credit."""


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
