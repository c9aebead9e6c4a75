"""Checks of peers that speak Point-2-Point with proposals, over bymux.

We call, so we are the proactive endpoint: our proposals have even ids. What we send is written by hand, what the peer
sends is read by Culm's decoders. The peer may make no proposals, because it gets no credit for any, except in the check
about overlaps.

Specification: docs/specs/proposals.md; the sections that checks name without a page are those of the document.
"""

from collections.abc import Callable, Sequence
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
_ALL_SIZES = "00 ff" + 8 * "ff"


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


@_CHECKS("setup", "Running Bamboo-Point-2-Point Over Bymux; S2", "The peer sends its setup: flags and two windows.")
async def _setup(talk: ProposalTalk) -> None:
    """Nothing is left to do: every conversation begins with it."""


@_CHECKS(
    "ignored bits",
    "Running Bamboo-Point-2-Point Over Bymux",
    "Six bits of the flags are ignored.",
    opening=lambda _: b"\xfc\0\0",
)
async def _ignored_bits(talk: ProposalTalk) -> None:
    await talk.wait_for_credit()
    await talk.propose(0xF0, f"01 01 {_ALL_SIZES} 05 05")
    await talk.cancelled()


@_CHECKS("grants credit", "The Control Channel; C1", "The peer grants credit for proposals.")
async def _grants(talk: ProposalTalk) -> None:
    await talk.wait_for_credit()
    if not talk.credit:
        raise Differs(talk.silence(), "a grant of proposal credit")


@_CHECKS("grants data credit", "Running Bamboo-Point-2-Point Over Bymux; S4", "The data channel has credit.")
async def _grants_data(talk: ProposalTalk) -> None:
    while not talk.data_credit:
        if not await talk.take():
            raise Differs(talk.silence(), "credit for stream 1")


@_CHECKS("ping", "bymux; S5", "A ping is answered with a pong.")
async def _ping(talk: ProposalTalk) -> None:
    await talk.send(bytes.fromhex("50"))
    while not talk.pongs:
        if not await talk.take():
            raise Differs(talk.silence(), "a pong")


@_CHECKS("unknown log", "The Control Channel; C7, C26", "A proposal of a log that nobody holds is answered.")
async def _unknown_log(talk: ProposalTalk) -> None:
    await talk.grant()
    await talk.propose(0xF0, f"01 01 {_ALL_SIZES} 05 05")
    answer = await talk.answer()
    if answer is None or (isinstance(answer, Adjust) and answer.eagerness is None):
        raise Differs(named(answer) or talk.silence(), "a confirmation with an eagerness, or a cancellation")
    item = await talk.item()
    if item is not None and not isinstance(item, Marker):
        raise Differs(named(item), "no items")


@_CHECKS(
    "cancellation", "The Control Channel; C19, M1", "A cancelled proposal is cancelled by the peer on both channels."
)
async def _cancellation(talk: ProposalTalk) -> None:
    await talk.propose(0xF0, f"01 01 {_ALL_SIZES} 05 05")
    await talk.cancelled()


@_CHECKS("crossing cancellations", "The Control Channel; C19", "A cancellation that crosses the peer's is enough.")
async def _crossing(talk: ProposalTalk) -> None:
    await talk.propose(0xF0, f"01 01 {_ALL_SIZES} 05 05")
    await talk.propose(0xF0, f"01 01 {_ALL_SIZES} 05 05", number=2)
    await talk.cancelled(2)
    await talk.cancelled(0)


@_CHECKS("freed ids", "The Control Channel; C27", "The id of a proposal that is cancelled in full can be used again.")
async def _freed_ids(talk: ProposalTalk) -> None:
    for _ in range(2):
        await talk.propose(0xF0, f"01 01 {_ALL_SIZES} 05 05")
        await talk.cancelled()


@_CHECKS("byte by byte", "bymux; E12", "Messages ignore the borders of packets: here each has one byte.")
async def _byte_by_byte(talk: ProposalTalk) -> None:
    await talk.wait_for_credit()
    for byte in talk.proposal(0xF0, f"01 01 {_ALL_SIZES} 05 05"):
        await talk.send_slowly(packet(WRITE, CONTROL, 1) + bytes((byte,)))
    await talk.cancelled()


@_CHECKS("no proposal without credit", "The Control Channel; C1", "The peer proposes nothing while it has no credit.")
async def _no_proposal(talk: ProposalTalk) -> None:
    await talk.grant()
    await talk.propose(0xF0, f"01 01 {_ALL_SIZES} 05 05", log=talk.subject.log)
    while await talk.answer() is not None:
        pass
    if talk.is_closed:
        raise Differs(talk.silence(), "an open connection without a proposal")


# -- with a log ----------------------------------------------------------------------------------------------------


def _held(item: str, source: str, claim: str, flags: int, rest: str, plan: str, entries: int) -> None:
    """Add a check: a proposal of the held log is confirmed, and brings these messages about its items."""

    @_CHECKS(item, source, claim, entries=entries)
    async def run(talk: ProposalTalk) -> None:
        if "s5" in plan and not talk.subject.size_of(1):
            raise NotDecided("the payload of entry 1 is empty, so that none is smaller")
        await _proposed(talk, flags, rest)
        await talk.items(plan)


_MOST = "ff" + 8 * "ff"
_held("held log", "The Data Channel", "A range comes in order, each entry's metadata before its payload.",
    0xF0, f"01 01 {_ALL_SIZES} 03 03", "m1 p1 m2 p2 m3 p3", 3)  # fmt: skip
_held("sparse range", "The Control Channel; T42", "A sparse range is the shortest path; its links are there.",
    0xF2, f"01 01 {_ALL_SIZES} 04 04", "m1 p1 m4 p4", 4)  # fmt: skip
_held("lower pool", "The Data Channel", "The metadata of the lower certificate pool comes first.",
    0xF0, f"05 01 {_ALL_SIZES} 05 05", "m1 m4 m5 p5", 5)  # fmt: skip
_held("upper pool", "The Data Channel", "The metadata of the upper certificate pool comes last.",
    0xF0, f"02 01 {_ALL_SIZES} 02 04", "m1 m2 p2 m3 m4", 4)  # fmt: skip
_held("payloads only", "The Control Channel", "A payload-only proposal brings no metadata.",
    0xF4, f"01 01 {_ALL_SIZES} 02 02", "p1 p2", 2)  # fmt: skip
_held("notices only", "The Data Channel; X18", "If only notices are wanted, nothing else comes.",
    0xB0, f"01 01 {_ALL_SIZES} 02 02", "n n n n", 2)  # fmt: skip
_held("limit", "The Control Channel; X15", "Of a payload above the limit comes a notice.",
    0xD0, f"01 01 {_ALL_SIZES} 00 01 01", "m1 n", 1)  # fmt: skip
_held("largest payload", "The Data Channel; E10, X13", "A payload above the maximum is skipped with 05.",
    0xF0, "01 01 00 00 01 01", "m1 s5", 1)  # fmt: skip
_held("smallest payload", "The Data Channel; X13", "A payload below the minimum is skipped with 04.",
    0xF0, f"01 01 {_MOST} {_MOST} 01 01", "m1 s4", 1)  # fmt: skip


@_CHECKS("offset", "The Control Channel; E7", "A proposal with an offset begins inside the payload.", entries=1)
async def _offset(talk: ProposalTalk) -> None:
    entry, payload = talk.subject.entries[0]
    middle = entry.size // 2
    if not payload:
        raise NotDecided("the payload of entry 1 is empty")
    fields = (bytes.fromhex(f"01 {_ALL_SIZES}"), entry.hash, b"\x01\x01", encode_varu64(middle))
    await _proposed(talk, 0xF8, b"".join(fields))
    if await talk.payload(entry, middle) != payload[middle:]:
        raise Differs("other bytes", "the second half of the payload of entry 1")


@_CHECKS(
    "expected hash",
    "The Control Channel; C24",
    "A proposal with the right starting hash brings what follows.",
    entries=2,
)
async def _expected_hash(talk: ProposalTalk) -> None:
    await _proposed(talk, 0xF0, bytes.fromhex(f"02 02 {_ALL_SIZES}") + talk.subject.hash_of(1) + b"\x02\x02")
    await talk.items("m2 p2")


@_CHECKS(
    "code 85",
    "The Control Channel; C22, C24",
    "Another starting hash is answered with 85 and the peer's entry.",
    entries=2,
)
async def _hash_differs(talk: ProposalTalk) -> None:
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


@_CHECKS(
    "no data without credit", "Running Bamboo-Point-2-Point Over Bymux; S4", "The peer keeps to our credit.", entries=1
)
async def _no_data(talk: ProposalTalk) -> None:
    await talk.grant(9)
    await talk.propose(0xF0, f"01 01 {_ALL_SIZES} 01 01", log=talk.subject.held)
    await talk.confirmed()
    if (item := await talk.item()) is not None:
        raise Differs(named(item), "9 bytes, which are no whole item")
    await talk.grant()
    await talk.items("m1 p1")


@_CHECKS(
    "overlap",
    "The Control Channel; C16",
    "Of overlapping proposals the one that starts later was never made.",
    entries=1,
)
async def _overlap(talk: ProposalTalk) -> None:
    talk.may_propose = True
    await talk.grant()
    await talk.control("00 04")
    await talk.propose(0xF0, f"01 01 {_ALL_SIZES} 01 01", log=talk.subject.held)  # The peer may wait for our interest.
    theirs: ControlMessage | None = None
    while not (isinstance(theirs, Proposal) and theirs.log == talk.subject.held):
        theirs = await talk.answer()
        if theirs is None:
            raise NotDecided("the peer proposes nothing of this log by itself")
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


def _violation(
    item: str,
    source: str,
    what: str,
    control: str = "",
    *,
    data: str = "",
    packets: str = "",
    flags: int = 0xF0,
    proposal: str = "",
    number: int = 0,
) -> None:
    """Add a check: the peer has to end the connection after these bytes, behind a proposal if there is one."""

    @_CHECKS(item, source, f"{what} ends the connection.", breaks=True)
    async def run(talk: ProposalTalk) -> None:
        if proposal:
            await talk.wait_for_credit()
            await talk.control(talk.proposal(flags, proposal, number=number) + bytes.fromhex(control))
        elif control:
            await talk.control(control)
        elif data:
            await talk.data(data)
        else:
            await talk.send(bytes.fromhex(packets))
        await talk.closes()


_INVARIANTS, _FULL = "Encodings, invariants", "ff" * 9
_ANY = f"01 01 {_ALL_SIZES} 05 05"
_violation("control byte 88", _INVARIANTS + "; E4", "An unused first byte of the control channel", "88 00")
_violation("data byte 01", _INVARIANTS, "An unused first byte of the data channel", data="01")
_violation("too much credit", _INVARIANTS + "; C1", "Credit above 2^64 - 1", f"00 {_FULL} 00 01")
_violation("odd id", _INVARIANTS, "A proposal with an odd id of the endpoint that called", proposal=_ANY, number=1)
_violation("id in use", _INVARIANTS, "A second proposal with an id", proposal=_ANY,
    control="f0 00" + 32 * "07" + "00" + _ANY)  # fmt: skip
_violation("entry 0", _INVARIANTS, "Sequence number 0", proposal=f"00 01 {_ALL_SIZES} 05 05")
_violation("end before start", _INVARIANTS, "An end below the start", proposal=f"05 01 {_ALL_SIZES} 04 04")
_violation(
    "upper before end", _INVARIANTS, "An upper certpool info below the end", proposal=f"01 01 {_ALL_SIZES} 05 04"
)
_violation("lower behind start", _INVARIANTS, "A lower certpool info above the start",
    proposal=f"04 05 {_ALL_SIZES} 0040 {64 * '00'} 05 05")  # fmt: skip
_violation("other hash function", "E2", "A hash that is no YAMF-hash of BLAKE2b-512",
    proposal=f"02 02 {_ALL_SIZES} 0140 {64 * '00'} 05 05")  # fmt: skip
_violation("adjustment of nothing", _INVARIANTS, "An adjustment of a proposal that does not exist", "60 02")
_violation("cancellation of nothing", _INVARIANTS, "A cancellation of a proposal that does not exist", "80 02")
_violation("second cancellation", _INVARIANTS + "; C19", "A second cancellation", proposal=_ANY, control="80 00 80 00")
_violation("adjustment behind the end", _INVARIANTS + "; C13", "An adjustment behind one's own cancellation",
    proposal=_ANY, control="80 00 60 00")  # fmt: skip
_violation("minimum lowered", _INVARIANTS + "; C12", "A smaller minimum size", control="02 00 09",
    proposal=f"01 01 0a {_FULL} 05 05")  # fmt: skip
_violation("maximum raised", _INVARIANTS + "; C12", "A larger maximum size", control="01 00 0b",
    proposal="01 01 00 0a 05 05")  # fmt: skip
_violation("end lowered too far", _INVARIANTS + "; C9", "An adjusted end below the start", control="08 00 04",
    proposal=f"05 01 {_ALL_SIZES} 09 09")  # fmt: skip
_violation("switch to nothing", _INVARIANTS + "; X3", "A switch to a proposal that does not exist", data="00 02")
_violation("item before a switch", "The Data Channel; X2", "An item before any switch", data="02")
_violation("marker of nothing", _INVARIANTS + "; M2", "A marker of a proposal that the peer never made", data="20 01")
_violation("unknown packet", "bymux", "A packet of a type that bymux does not have", packets="c0")
_violation("unknown stream", "bymux; S5", "A write to a stream that does not exist", packets="20 05 01 00")


@_CHECKS(
    "proposal without credit", _INVARIANTS, "A proposal for which there is no credit ends the connection.", breaks=True
)
async def _without_credit(talk: ProposalTalk) -> None:
    await talk.wait_for_credit()
    if talk.credit > _MOST_PROPOSALS:
        raise NotDecided(f"the peer takes {talk.credit} proposals; more than {_MOST_PROPOSALS} are not used up here")
    proposals = (talk.proposal(0xF0, _ANY, number=2 * each) for each in range(talk.credit + 1))
    await talk.control(b"".join(proposals))
    await talk.closes()


SUITE = Suite(ProposalTalk, _begin, _survey, tuple(_CHECKS.checks))
