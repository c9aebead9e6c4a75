"""Checks of peers that speak Point-2-Point with proposals, over bymux.

We call, so we are the proactive endpoint: our proposals have even ids. What we send is written by hand, what the peer
sends is read by Culm's decoders. The peer may make no proposals, because it gets no credit for any, except in the check
about overlaps.

Specification: docs/specs/proposals.md; the sections that checks name without a page are those of the document.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from culm.bamboo import MAX_U64, Entry, encode_varu64, has_lipmaalink, lipmaa
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
from culm.errors import EncodingError, RemoteProtocolError, Truncated
from culm.proposals.control import pull_control
from culm.proposals.data import DataMessage, Marker, Metadata, Notify, Raw, Skip, Switch, Why, pull_data
from culm.proposals.messages import Adjust, Cancel, Code, ControlMessage, Grant, Proposal
from culm.proposals.setup import Setup
from culm.types import Log
from culm.wire.bymux import CREDIT, PING, PONG, WRITE, packet, pull_packet

CONTROL, DATA = 0, 1
_ENOUGH = SURVEYED * (MOST_PAYLOAD + 1024)
"""Bytes of the data channel to grant where a check is not about credit."""
_MOST_PROPOSALS = 4096
"""Proposals that a check makes to use up the peer's credit."""
_MOST = 9 * "ff"
_ALL_SIZES = "00" + _MOST


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes of a payload."""

    data: bytes


class ProposalTalk(Talk):
    """A conversation by proposals. ``credit``: proposals that we may make; ``setup``: what the peer said of itself."""

    def __init__(self, line: Line, subject: Subject) -> None:
        super().__init__(line, subject)
        self.setup: Setup | None = None
        self.credit = 0
        self.data_credit = 0  # bytes that we may write to the data channel
        self.pongs = 0
        self.may_propose = False
        self._granted = 0
        self._channels = {CONTROL: bytearray(), DATA: bytearray()}
        self._current: int | None = None  # the proposal that the peer's items are about

    # -- what we send ----------------------------------------------------------------------------------------------

    def proposal(self, flags: int, rest: str | bytes, *, log: Log | None = None, number: int = 0) -> bytes:
        """A proposal: its first byte, the id, the log (default: one that nobody holds), and what follows, in hex."""
        author, log_id = log or (self.subject.random_bytes(32), 0)
        rest = bytes.fromhex(rest) if isinstance(rest, str) else rest
        return bytes((flags,)) + encode_varu64(number) + author + encode_varu64(log_id) + rest

    async def propose(self, flags: int, rest: str | bytes, *, log: Log | None = None, number: int = 0) -> None:
        """Make a proposal, if the peer's credit allows it."""
        await self.wait_for_credit()
        if not self.credit:
            raise NotDecided("the peer takes too few proposals for this check")
        self.credit -= 1
        await self.control(self.proposal(flags, rest, log=log, number=number))

    async def control(self, message: bytes | str) -> None:
        """Send a message on the control channel."""
        await self._write(CONTROL, message)

    async def data(self, message: bytes | str) -> None:
        """Send a message on the data channel, as soon as its credit allows it."""
        size = len(bytes.fromhex(message) if isinstance(message, str) else message)
        while self.data_credit < size:
            if not await self.take():
                raise Differs(self.silence(), "credit for the data channel")
        self.data_credit -= size
        await self._write(DATA, message)

    async def _write(self, stream: int, message: bytes | str) -> None:
        content = bytes.fromhex(message) if isinstance(message, str) else message
        await self.send(packet(WRITE, stream, len(content)) + content)

    async def grant(self, amount: int = _ENOUGH) -> None:
        """Let the peer write so many bytes to the data channel."""
        self._granted += amount
        await self.send(packet(CREDIT, DATA, amount))

    # -- what the peer sends ---------------------------------------------------------------------------------------

    async def take(self) -> bool:
        """Take in what comes next: the setup, or a packet; False if nothing comes."""
        while True:
            try:
                found = self._take_packet() if self.setup is not None else self._take_setup()
            except (RemoteProtocolError, EncodingError) as error:
                raise Differs(f"bytes that are no bymux: {error}", "packets of bymux") from None
            if found is not None:
                if found:
                    await self.reply(found)
                return True
            if not await self.more():
                return False

    def _take_setup(self) -> bytes | None:
        try:
            self.setup, size = Setup.pull(self.unread)
        except Truncated:
            return None
        del self.unread[:size]
        return b""

    def _take_packet(self) -> bytes | None:
        """Take one packet, if it is there; what to answer."""
        found = pull_packet(bytes(self.unread[:32]), 0)
        if found is None:
            return None
        kind, stream, number, size = found
        if kind == WRITE:
            end = size + (number or 0)
            if stream not in self._channels:
                raise Differs(f"a write to stream {stream}", "writes to streams 0 and 1")
            if len(self.unread) < end:
                return None
            self._channels[stream] += self.unread[size:end]
            size = end
            if stream == DATA:
                self._granted -= number or 0
                if self._granted < 0:
                    raise Differs(f"{-self._granted} bytes more than granted", "no more data than granted")
        elif kind == CREDIT and stream == DATA:
            self.data_credit = MAX_U64 if number == 0 else self.data_credit + (number or 0)
        del self.unread[:size]
        self.pongs += kind == PONG
        return packet(PONG, stream) if kind == PING else b""

    async def _next(self, stream: int, pull: Callable[[bytearray, int], tuple[object, int]]) -> object | None:
        """The next message of a channel, removed from it; None if none comes."""
        channel = self._channels[stream]
        while True:
            try:
                message, size = pull(channel, 0)
            except Truncated:
                if not await self.take():
                    return None
                continue
            except EncodingError as error:
                raise Differs(f"bytes that are no message: {error}", "messages that can be decoded") from None
            if isinstance(message, Raw):
                end = size + message.count
                while len(channel) < end:
                    if not await self.take():
                        return None
                message, size = Piece(bytes(channel[size:end])), end
            del channel[:size]
            self.line.be_patient()
            return message

    async def answer(self) -> ControlMessage | None:
        """The next message of the control channel but grants; None if none comes."""
        while (message := await self._next(CONTROL, pull_control)) is not None:
            if isinstance(message, Grant):
                self.credit += message.amount
                continue
            if isinstance(message, Proposal) and not self.may_propose:
                raise Differs("a proposal, although we granted no credit for one", "no proposal without credit")
            if isinstance(message, Proposal | Adjust | Cancel):
                return message
        return None

    async def item(self, number: int = 0) -> DataMessage | Piece | None:
        """The next message about the items of a proposal; None if none comes."""
        while (message := await self._next(DATA, pull_data)) is not None:
            if isinstance(message, Switch):
                self._current = message.id
            elif isinstance(message, Marker):
                return message
            elif self._current != number:
                raise Differs(f"items of proposal {self._current}", f"items of proposal {number}")
            else:
                return message  # type: ignore[return-value]
        return None

    async def wait_for_credit(self) -> None:
        """Wait until a proposal may be made."""
        while not self.credit and (message := await self._next(CONTROL, pull_control)) is not None:
            if not isinstance(message, Grant):
                raise Differs(f"{named(message)}", "a grant of proposal credit")
            self.credit += message.amount

    # -- what we expect --------------------------------------------------------------------------------------------

    async def confirmed(self, number: int = 0) -> None:
        """Expect that the peer confirms a proposal."""
        answer = await self.answer()
        if not isinstance(answer, Adjust) or answer.id != number or answer.eagerness is None:
            raise Differs(named(answer) or self.silence(), f"a confirmation of proposal {number}, with an eagerness")

    async def cancelled(self, number: int = 0) -> None:
        """Cancel a proposal, and expect the cancellation and the marker of the peer."""
        await self.grant()
        await self.control(b"\x80" + encode_varu64(number))
        while not isinstance(answer := await self.answer(), Cancel):
            if answer is None:
                raise Differs(self.silence(), "a cancellation of the peer")
        if answer.id != number:
            raise Differs(f"a cancellation of proposal {answer.id}", f"one of proposal {number}")
        await self.data(b"\x20" + encode_varu64(number))
        while not isinstance(message := await self._next(DATA, pull_data), Marker):
            if message is None:
                raise Differs(self.silence(), "a marker of the peer")
        if message.id != number:
            raise Differs(f"a marker of proposal {message.id}", f"one of proposal {number}")

    async def items(self, plan: str, number: int = 0) -> list[Entry]:
        """Expect these messages: ``m1`` and ``p1`` for items, ``s5`` for a payload skipped so, ``n`` for one notice."""
        entries: dict[int, Entry] = {}
        notices = 0
        for word in plan.split():
            if word == "n":
                notices = notices or await self._notice(number)
                notices -= 1
            elif word[0] == "s":
                message = await self.item(number)
                if message != Skip(Why(int(word[1:]))):
                    raise Differs(named(message) or self.silence(), f"a skip {int(word[1:]):02x}")
            elif word[0] == "m":
                seq = int(word[1:])
                entries[seq] = await self.entry(seq, entries, number)
            else:
                await self.payload(entries.get(int(word[1:])) or self.subject.entries[int(word[1:]) - 1][0], 0, number)
        return list(entries.values())

    async def _notice(self, number: int) -> int:
        message = await self.item(number)
        if not isinstance(message, Notify) or not message.count:
            raise Differs(named(message) or self.silence(), "a notice")
        return message.count

    async def entry(self, seq: int, sent: dict[int, Entry], number: int = 0) -> Entry:
        """Expect the metadata of an entry, with its backlink where that is due; ``sent``: entries that came before."""
        message = await self.item(number)
        if not isinstance(message, Metadata):
            raise Differs(named(message) or self.silence(), f"m_{seq}")
        due = has_lipmaalink(seq) and seq - 1 not in sent
        if (message.backlink is not None) != due:
            raise Differs(
                f"m_{seq} {'without' if due else 'with'} a backlink", f"m_{seq} {'with' if due else 'without'} it"
            )
        entry = Entry.assemble(
            self.subject.held,
            seq,
            message.is_end,
            self._link(lipmaa(seq), sent) if has_lipmaalink(seq) else None,
            message.backlink or (self._link(seq - 1, sent) if seq > 1 else None),
            message.size,
            message.payload_hash,
            message.signature,
        )
        check_entry(entry, f"m_{seq}")
        return entry

    def _link(self, seq: int, sent: dict[int, Entry]) -> bytes:
        return sent[seq].hash if seq in sent else self.subject.hash_of(seq)

    async def payload(self, entry: Entry, begin: int = 0, number: int = 0) -> bytes:
        """Expect the bytes of a payload, from an offset on."""
        if entry.size > MOST_PAYLOAD:
            raise NotDecided(
                f"the payload of entry {entry.seq} has {entry.size} bytes; at most {MOST_PAYLOAD} are read"
            )
        found = b""
        while True:
            message = await self.item(number)
            if not isinstance(message, Piece):
                raise Differs(named(message) or self.silence(), f"bytes of p_{entry.seq}")
            found += message.data
            if len(found) >= entry.size - begin:
                break
        if not begin:
            check_payload(entry, found)
        return found


def named(message: object) -> str:
    """A message in words, for the report; none for None."""
    if isinstance(message, Piece):
        return f"{len(message.data)} bytes of a payload"
    if isinstance(message, Cancel):
        return f"a cancellation of proposal {message.id} with code {message.code:d}"
    words = "" if message is None else type(message).__name__.lower()
    number = getattr(message, "id", getattr(message, "count", getattr(message, "why", None)))
    return words if number is None else f"{words} {number}"


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
        await _proposed(talk, 0xF0, f"01 01 {_ALL_SIZES} {SURVEYED:02x} {SURVEYED:02x}")
        for seq in range(1, SURVEYED + 1):
            sent[seq] = await talk.entry(seq, sent)
            found.append((sent[seq], await talk.payload(sent[seq])))
    return found


async def _proposed(talk: ProposalTalk, flags: int, rest: str | bytes) -> None:
    """Grant data credit, propose a part of the held log, and expect a confirmation."""
    await talk.grant()
    await talk.propose(flags, rest, log=talk.subject.held)
    await talk.confirmed()


_CHECKS: Listing[ProposalTalk] = Listing()


# -- without a log -------------------------------------------------------------------------------------------------


@_CHECKS("setup", "Running Bamboo-Point-2-Point Over Bymux; S2")
async def _setup(talk: ProposalTalk) -> None:
    """The peer sends its setup: flags and two windows."""


@_CHECKS("ignored bits", "Running Bamboo-Point-2-Point Over Bymux", opening=lambda _: b"\xfc\0\0")
async def _ignored_bits(talk: ProposalTalk) -> None:
    """Six bits of the flags are ignored."""
    await talk.wait_for_credit()
    await talk.propose(0xF0, f"01 01 {_ALL_SIZES} 05 05")
    await talk.cancelled()


@_CHECKS("grants credit", "The Control Channel; C1")
async def _grants(talk: ProposalTalk) -> None:
    """The peer grants credit for proposals."""
    await talk.wait_for_credit()
    if not talk.credit:
        raise Differs(talk.silence(), "a grant of proposal credit")


@_CHECKS("grants data credit", "Running Bamboo-Point-2-Point Over Bymux; S4")
async def _grants_data(talk: ProposalTalk) -> None:
    """The data channel has credit."""
    while not talk.data_credit:
        if not await talk.take():
            raise Differs(talk.silence(), "credit for stream 1")


@_CHECKS("ping", "bymux; S5")
async def _ping(talk: ProposalTalk) -> None:
    """A ping is answered with a pong."""
    await talk.send(bytes.fromhex("50"))
    while not talk.pongs:
        if not await talk.take():
            raise Differs(talk.silence(), "a pong")


@_CHECKS("unknown log", "The Control Channel; C7, C26")
async def _unknown_log(talk: ProposalTalk) -> None:
    """A proposal of a log that nobody holds is answered."""
    await talk.grant()
    await talk.propose(0xF0, f"01 01 {_ALL_SIZES} 05 05")
    answer = await talk.answer()
    if answer is None or (isinstance(answer, Adjust) and answer.eagerness is None):
        raise Differs(named(answer) or talk.silence(), "a confirmation with an eagerness, or a cancellation")
    item = await talk.item()
    if item is not None and not isinstance(item, Marker):
        raise Differs(named(item), "no items")


@_CHECKS("cancellation", "The Control Channel; C19, M1")
async def _cancellation(talk: ProposalTalk) -> None:
    """A cancelled proposal is cancelled by the peer on both channels."""
    await talk.propose(0xF0, f"01 01 {_ALL_SIZES} 05 05")
    await talk.cancelled()


@_CHECKS("crossing cancellations", "The Control Channel; C19")
async def _crossing(talk: ProposalTalk) -> None:
    """A cancellation that crosses the peer's is enough."""
    await talk.propose(0xF0, f"01 01 {_ALL_SIZES} 05 05")
    await talk.propose(0xF0, f"01 01 {_ALL_SIZES} 05 05", number=2)
    await talk.cancelled(2)
    await talk.cancelled(0)


@_CHECKS("freed ids", "The Control Channel; C27")
async def _freed_ids(talk: ProposalTalk) -> None:
    """The id of a proposal that is cancelled in full can be used again."""
    for _ in range(2):
        await talk.propose(0xF0, f"01 01 {_ALL_SIZES} 05 05")
        await talk.cancelled()


@_CHECKS("byte by byte", "bymux; E12")
async def _byte_by_byte(talk: ProposalTalk) -> None:
    """Messages ignore the borders of packets: here each has one byte."""
    await talk.wait_for_credit()
    for byte in talk.proposal(0xF0, f"01 01 {_ALL_SIZES} 05 05"):
        await talk.send_slowly(packet(WRITE, CONTROL, 1) + bytes((byte,)))
    await talk.cancelled()


@_CHECKS("no proposal without credit", "The Control Channel; C1")
async def _no_proposal(talk: ProposalTalk) -> None:
    """The peer proposes nothing while it has no credit."""
    await talk.grant()
    await talk.propose(0xF0, f"01 01 {_ALL_SIZES} 05 05", log=talk.subject.log)
    while await talk.answer() is not None:
        pass
    if talk.is_closed:
        raise Differs(talk.silence(), "an open connection without a proposal")


# -- with a log ----------------------------------------------------------------------------------------------------


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
smallest payload | The Data Channel; X13 | Below the minimum: skip 04. | 1 | f0 / 01 01 {2 * _MOST} 01 01 | m1 s4
"""


def _held(proposal: str, plan: str) -> Callable[[ProposalTalk], Awaitable[None]]:
    async def run(talk: ProposalTalk) -> None:
        if plan in ("m1 s5", "m1 n") and not talk.subject.size_of(1):
            raise NotDecided("the payload of entry 1 is empty, so that it is not above any size")
        first, rest = proposal.replace("ALL", _ALL_SIZES).split("/")
        await _proposed(talk, int(first, 16), rest)
        await talk.items(plan)

    return run


for _item, _source, _claim, _entries, _proposal, _plan in rows(_HELD):
    _CHECKS(_item, _source, _claim, entries=int(_entries))(_held(_proposal, _plan))


@_CHECKS("offset", "The Control Channel; E7", entries=1)
async def _offset(talk: ProposalTalk) -> None:
    """A proposal with an offset begins inside the payload."""
    entry, payload = talk.subject.entries[0]
    middle = entry.size // 2
    if not payload:
        raise NotDecided("the payload of entry 1 is empty")
    fields = (bytes.fromhex(f"01 {_ALL_SIZES}"), entry.hash, b"\x01\x01", encode_varu64(middle))
    await _proposed(talk, 0xF8, b"".join(fields))
    if await talk.payload(entry, middle) != payload[middle:]:
        raise Differs("other bytes", "the second half of the payload of entry 1")


@_CHECKS("expected hash", "The Control Channel; C24", entries=2)
async def _expected_hash(talk: ProposalTalk) -> None:
    """A proposal with the right starting hash brings what follows."""
    await _proposed(talk, 0xF0, bytes.fromhex(f"02 02 {_ALL_SIZES}") + talk.subject.hash_of(1) + b"\x02\x02")
    await talk.items("m2 p2")


@_CHECKS("code 85", "The Control Channel; C22, C24", entries=2)
async def _hash_differs(talk: ProposalTalk) -> None:
    """Another starting hash is answered with 85 and the peer's entry."""
    other = bytes.fromhex("0040") + talk.subject.random_bytes(64)
    rest = bytes.fromhex(f"02 02 {_ALL_SIZES}") + other + b"\x02\x02"
    await talk.propose(0xF0, rest, log=talk.subject.held)
    answer = await talk.answer()
    if not isinstance(answer, Cancel) or answer.code not in (Code.HASH_DIFFERS, Code.FORKED):
        raise Differs(named(answer) or talk.silence(), "a cancellation with code 133")
    for entry in answer.entries:
        check_entry(entry, "the entry of a cancellation")
    if answer.code is Code.HASH_DIFFERS and answer.entries[0].hash != talk.subject.hash_of(1):
        raise Differs("a cancellation with another entry", "a cancellation with entry 1")


@_CHECKS("no data without credit", "Running Bamboo-Point-2-Point Over Bymux; S4", entries=1)
async def _no_data(talk: ProposalTalk) -> None:
    """The peer keeps to our credit."""
    await talk.grant(9)
    await talk.propose(0xF0, f"01 01 {_ALL_SIZES} 01 01", log=talk.subject.held)
    await talk.confirmed()
    if (item := await talk.item()) is not None:
        raise Differs(named(item), "9 bytes, which are no whole item")
    await talk.grant()
    await talk.items("m1 p1")


@_CHECKS("overlap", "The Control Channel; C16", entries=1)
async def _overlap(talk: ProposalTalk) -> None:
    """Of overlapping proposals the one that starts later was never made."""
    talk.may_propose = True
    await talk.grant()
    await talk.control("00 04")
    await talk.propose(0xF0, f"01 01 {_ALL_SIZES} 01 01", log=talk.subject.held)  # The peer may wait for our interest.
    theirs: ControlMessage | None = None
    while not (isinstance(theirs, Proposal) and theirs.log == talk.subject.held):
        theirs = await talk.answer()
        if theirs is None:
            raise NotDecided("the peer does not propose this log by itself")
    if theirs.end is not None and theirs.end <= theirs.start:
        raise NotDecided("the peer proposes a single entry, so that no proposal can start behind it and overlap")
    behind = encode_varu64(theirs.start + 1) + bytes.fromhex(f"01 {_ALL_SIZES}")
    await talk.propose(0xE0, behind, log=theirs.log, number=2)
    while (answer := await talk.answer()) is not None:
        if isinstance(answer, Adjust | Cancel) and answer.id == 2:
            raise Differs(named(answer), "no answer to the proposal that starts later")
    if talk.is_closed:
        raise Differs(talk.silence(), "an open connection")


# -- violations ----------------------------------------------------------------------------------------------------


# An item, where it is written, and the bytes that have to end the connection: on the control or the data channel, or as
# packets. LOG stands for a log that nobody holds, ALL for all sizes.
_VIOLATIONS = f"""
unknown byte of control | Encodings, invariants; E4 | control | 88 00
unknown byte of data | Encodings, invariants | data | 01
credit above 2^64 - 1 | Encodings, invariants; C1 | control | 00 {_MOST} 00 01
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
lower minimum | Encodings, invariants; C12 | control | f0 00 LOG 01 01 0a {_MOST} 05 05 02 00 09
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
        content = bytes.fromhex(message.replace("LOG", _LOG).replace("ALL", _ALL_SIZES))
        await {"control": talk.control, "data": talk.data, "packets": talk.send}[channel](content)
        await talk.closes()

    return run


for _item, _source, _channel, _message in rows(_VIOLATIONS):
    _CHECKS(_item, _source, f"The connection ends: {_item}.", breaks=True)(_violation(_channel, _message))


@_CHECKS("proposal without credit", "Encodings, invariants", breaks=True)
async def _without_credit(talk: ProposalTalk) -> None:
    """A proposal without credit ends the connection."""
    await talk.wait_for_credit()
    if talk.credit > _MOST_PROPOSALS:
        raise NotDecided(f"the peer takes {talk.credit} proposals; more than {_MOST_PROPOSALS} are not used up here")
    proposals = (talk.proposal(0xF0, f"01 01 {_ALL_SIZES} 05 05", number=2 * each) for each in range(talk.credit + 1))
    await talk.control(b"".join(proposals))
    talk.credit, talk.may_propose = 0, True
    while await talk.answer() is not None:
        pass
    if talk.credit and not talk.is_closed:
        raise NotDecided("the peer refuses proposals of a log that it lacks, and gives their credit back as they come")
    await talk.closes()


SUITE = Suite(ProposalTalk, _begin, _survey, tuple(_CHECKS.checks))
