"""A conversation by proposals, over bymux.

We call, so we are the proactive endpoint: our proposals have even ids. What we send is written by hand, what the peer
sends is read by Culm's decoders. The peer may make no proposals, because it gets no credit for any, except in the check
about overlaps.

Specification: docs/specs/proposals.md.
"""

from collections.abc import Callable
from dataclasses import dataclass

from culm.bamboo import MAX_U64, Entry, encode_varu64, has_lipmaalink, lipmaa
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
from culm.errors import EncodingError, RemoteProtocolError, Truncated
from culm.proposals.control import pull_control
from culm.proposals.data import DataMessage, Marker, Metadata, Notify, Raw, Skip, Switch, Why, pull_data
from culm.proposals.messages import Adjust, Cancel, ControlMessage, Grant, Proposal
from culm.proposals.setup import Setup
from culm.types import Log
from culm.wire.bymux import CREDIT, PING, PONG, WRITE, packet, pull_packet

CONTROL, DATA = 0, 1
_ENOUGH = SURVEYED * (MOST_PAYLOAD + 1024)
"""Bytes of the data channel to grant where a check is not about credit."""
MOST = 9 * "ff"
ALL_SIZES = "00" + MOST


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
