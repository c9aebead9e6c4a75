"""Every rule whose breach ends the connection, and everything that must not end it (docs/protocols/proposals.md)."""

# ruff: noqa: E501 - a rule a line

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any, Self

import pytest

from culm.bamboo import MAX_U64
from culm.errors import LocalProtocolError, RemoteProtocolError
from culm.proposals import (
    EVERYTHING,
    NOTHING,
    Adjust,
    Cancel,
    Cancelled,
    Code,
    Connection,
    Eagerness,
    EntryReceived,
    Limits,
    Noticed,
    Offered,
    PayloadFailed,
    PayloadReceived,
    Proposal,
    Setup,
    Wish,
    pull_control,
    push_control,
    push_data,
)
from culm.proposals.messages import (
    Apology,
    Compressed,
    Grant,
    Marker,
    Metadata,
    Notify,
    Raw,
    Skip,
    SkipBytes,
    Switch,
    Why,
)
from culm.testing.builders import LogBuilder, build_log
from tests.proposals.examples import H1, H2, H4, IDENTITY, KEY, LOG, OTHER_1, OTHER_2, store_of
from tests.proposals.pair import Pair, Side

if TYPE_CHECKING:
    from collections.abc import Callable

OTHER_LOG = build_log(3)
LONG = LogBuilder(IDENTITY)
for number in range(20):
    LONG.append(b"%d" % number * 5)


def meta(seq: int, *, backlink: bool = False, log: LogBuilder = LOG) -> Metadata:
    """The metadata of an entry."""
    entry = log.entries[seq - 1]
    return Metadata(entry.is_end, entry.backlink if backlink else None, entry.size, entry.payload_hash, entry.signature)


def raw(data: bytes) -> bytes:
    """Bytes of a payload."""
    return push_data(Raw(len(data))) + data


def pay(seq: int, log: LogBuilder = LOG) -> bytes:
    """A whole payload."""
    return raw(log.payloads[log.entries[seq - 1].hash])


def offer(start: int = 1, end: int | None = 5, **fields: Any) -> Proposal:
    """A proposal of the peer, with what most tests want."""
    upper = fields.pop("upper", end)
    return Proposal(fields.pop("id", 0), KEY, 0, start, fields.pop("lower", 1), end, upper, **fields)


class Victim:
    """A connection that gets messages of a peer made up as the test likes. It is the reactive one."""

    def __init__(self, *held: int, greedy: bool = False, window: int = 0, log: LogBuilder = LOG) -> None:
        self.store = store_of(log, *held)
        self.connection = Connection(
            self.store,
            proactive=False,
            setup=Setup(takes_greedily=greedy, receive_window=window),
            limits=Limits(proposals=4),
        )
        self.connection.peer_setup(Setup(sends_greedily=greedy, send_window=window))
        self.events: list[Any] = []
        self.connection.control_to_send()

    def _keep(self, events: list[Any]) -> None:
        self.events += events
        for event in events:
            if isinstance(event, EntryReceived):
                self.store.put(event.entry)
            elif isinstance(event, PayloadReceived):
                held = self.store.bytes.get(event.entry.hash, b"")
                self.store.put(event.entry, held[: event.offset] + event.data)

    def control(self, *messages: Any) -> Self:
        """Take control messages."""
        for message in messages:
            self._keep(
                self.connection.receive_control(message if isinstance(message, bytes) else push_control(message))
            )
        return self

    def data(self, *messages: Any) -> Self:
        """Take data messages."""
        for message in messages:
            self._keep(self.connection.receive_data(message if isinstance(message, bytes) else push_data(message)))
        return self

    def confirms(self, wish: Eagerness = EVERYTHING, proposal_id: int = 0, **fields: Any) -> Self:
        """Confirm a proposal of the peer."""
        self.connection.confirm(proposal_id, wish, **fields)
        return self

    def runs(self, proposal: Proposal | None = None, wish: Eagerness = EVERYTHING, **fields: Any) -> Self:
        """A proposal of the peer that was confirmed, and that the peer has switched to."""
        proposal = proposal or offer()
        return self.control(proposal).confirms(wish, proposal.id, **fields).data(Switch(proposal.id))

    def proposes(self, proposal: Proposal, **fields: Any) -> Self:
        """Propose something to the peer."""
        self.control(Grant(10))
        self.connection.propose(proposal, **fields)
        self.connection.control_to_send()
        return self

    def adjusts(self, **fields: Any) -> Self:
        """Change what we want of proposal 0."""
        self.connection.adjust(Adjust(0, **fields))
        return self

    def cancels(self, code: Code = Code.DO_NOT_RETRY, proposal_id: int = 0) -> Self:
        """Cancel a proposal."""
        self.connection.cancel(proposal_id, code)
        return self

    def sends(self) -> Self:
        """Send whatever there is."""
        self.connection.respond(10**6)
        self.connection.data_to_send()
        return self


Case = tuple["Callable[[], Victim]", tuple[Any, ...], tuple[Any, ...]]


def data(*messages: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Messages of the data channel."""
    return (), messages


def control(*messages: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Messages of the control channel."""
    return messages, ()


bad_signature = meta(1).__class__(False, None, 20, LOG.entries[0].payload_hash, bytes(64))
wrong_payload = raw(b"x" * 20)

TERMINATES: dict[str, tuple[Callable[[], Victim], tuple[tuple[Any, ...], tuple[Any, ...]]]] = {
    # Control channel.
    "unused first byte of control": (Victim, control(b"\x88")),
    "credit above 64 bits (C1)": (Victim, control(Grant(MAX_U64), Grant(1))),
    "a proposal without credit (C1)": (
        Victim,
        control(*(offer(id=2 * number, start=number * 10 + 1, end=number * 10 + 2) for number in range(5))),
    ),
    "an id of ours (C3)": (Victim, control(offer(id=3))),
    "an id in use (C3)": (lambda: Victim().control(offer()), control(offer(start=100, end=None))),
    "lower above start (C3)": (Victim, control(offer(start=5, lower=6, hash=H1))),
    "lower outside the pool (C3)": (Victim, control(offer(start=5, lower=3, hash=H1))),
    "end below start (C3)": (Victim, control(offer(start=5, end=4, upper=5))),
    "upper below end (C3)": (Victim, control(offer(start=5, end=9, upper=8))),
    "start zero": (Victim, control(push_control(offer()).replace(KEY + b"\x00\x01", KEY + b"\x00\x00"))),
    "a confirmation without eagerness (C7)": (
        lambda: Victim().proposes(offer()),
        control(Adjust(1, may_skip=True)),
    ),
    "an end below the start (C9)": (lambda: Victim().control(offer(start=5, end=10)), control(Adjust(0, end=4))),
    "an upper end of an endless range (C9)": (lambda: Victim().control(offer(end=None)), control(Adjust(0, upper=4))),
    "an upper end below the end (C9)": (lambda: Victim().control(offer(start=5, end=10)), control(Adjust(0, upper=9))),
    "a lower minimum (C12)": (lambda: Victim().control(offer(least=10)), control(Adjust(0, least=9))),
    "a higher maximum (C12)": (lambda: Victim().control(offer(greatest=10)), control(Adjust(0, greatest=11))),
    "an adjustment after their cancellation (C13)": (
        lambda: Victim().runs().control(Cancel(0, Code.DO_NOT_RETRY)),
        control(Adjust(0, NOTHING)),
    ),
    "an adjustment of nothing (C19)": (Victim, control(Adjust(4, NOTHING))),
    "a cancellation of nothing (C19)": (Victim, control(Cancel(4, Code.RESOURCE_LIMIT))),
    "84 of nothing (T68)": (Victim, control(Cancel(4, Code.MANDATORY_PAYLOAD))),
    "two cancellations (T68)": (lambda: Victim().runs(), control(*[Cancel(0, Code.DO_NOT_RETRY)] * 2)),
    "a hash that is the expected one (C22)": (
        lambda: Victim(1, 2, 3, 4).proposes(offer(5, lower=4, hash=H1)),
        control(Cancel(1, Code.HASH_DIFFERS, (LOG.entries[0],))),
    ),
    "a hash of another entry (C22)": (
        lambda: Victim(1, 2, 3, 4).proposes(offer(5, lower=4, hash=H1)),
        control(Cancel(1, Code.HASH_DIFFERS, (OTHER_2,))),
    ),
    "a proof of another log (C22)": (
        lambda: Victim().proposes(offer()),
        control(Cancel(1, Code.FORKED, (OTHER_LOG.entries[0], OTHER_LOG.entries[1]))),
    ),
    "a proof of entries that agree (C22)": (
        lambda: Victim().proposes(offer()),
        control(Cancel(1, Code.FORKED, (LOG.entries[0], LOG.entries[1]))),
    ),
    "an end of log at 0": (lambda: Victim().control(offer()), control(bytes.fromhex("860000"))),
    # Data channel: where it is.
    "unused first byte of data": (Victim, data(b"\x0a")),
    "an item before any switch (X2)": (lambda: Victim().control(offer()).confirms(), data(Notify(1))),
    "a switch to nothing (X3)": (Victim, data(Switch(2))),
    "a switch after the marker (X3)": (
        lambda: Victim().runs().cancels().data(Marker(0)),
        data(Switch(0)),
    ),
    "an item after the marker (M4)": (lambda: Victim().runs().cancels().data(Marker(0)), data(Notify(1))),
    "an item of what was not confirmed (X4)": (lambda: Victim().control(offer()), data(Switch(0), Notify(1))),
    "data, and then a cancellation instead of a confirmation (X4)": (
        lambda: Victim().proposes(offer()).data(Switch(1), meta(1)),
        control(Cancel(1, Code.RESOURCE_LIMIT)),
    ),
    "two markers": (lambda: Victim().runs().data(Marker(0)), data(Marker(0))),
    "a marker of ours that never was (M2)": (Victim, data(Marker(7))),
    "early markers beyond the credit (M2)": (Victim, data(*(Marker(number) for number in (2, 4, 6, 8, 10)))),
    "a notice beyond the end (X5)": (lambda: Victim().runs(offer(end=2), NOTHING), data(Notify(5))),
    "an item at the end (X6)": (
        lambda: Victim(1).runs(offer(end=1, payload_only=True, lower=1), NOTHING).data(Notify(1)),
        data(Notify(1)),
    ),
    "metadata in a range of payloads (X10)": (
        lambda: Victim(1, 2).runs(offer(end=2, payload_only=True)),
        data(meta(1)),
    ),
    "an empty payload that is passed over (X11)": (
        lambda: Victim().runs().data(meta(1), pay(1), meta(2), pay(2), meta(3)),
        data(meta(4)),
    ),
    "bytes beyond a payload (X23)": (lambda: Victim().runs().data(meta(1)), data(Raw(21))),
    "bytes beyond the rest of a payload (T83)": (
        lambda: Victim().runs().data(meta(1), pay(1), meta(2), raw(b"tw")),
        data(Raw(2)),
    ),
    "compressed bytes beyond a payload (X23)": (
        lambda: Victim(window=100).runs().data(meta(1)),
        data(Compressed(MAX_U64, 3)),
    ),
    "a payload in the lower pool (X22)": (lambda: Victim().runs(offer(5, 5)).data(meta(1)), data(pay(1))),
    "metadata where a payload is due": (lambda: Victim().runs().data(meta(1)), data(meta(2))),
    "a payload where metadata is due": (lambda: Victim().runs(), data(pay(1))),
    "metadata behind the end of the log (X24)": (
        lambda: Victim(1, 2, 3, 4).runs(offer(5, None, lower=4, hash=H1)).data(meta(4, backlink=True), meta(5), pay(5)),
        data(meta(1)),
    ),
    # What was asked for.
    "metadata where notices were asked for (X18)": (lambda: Victim().runs(wish=NOTHING), data(meta(1))),
    "bytes where notices were asked for (T77)": (
        lambda: Victim(1).runs(offer(payload_only=True, end=1), NOTHING),
        data(Raw(20)),
    ),
    "bytes above the limit (X18)": (
        lambda: Victim().runs(wish=Eagerness(Wish.LIMITED, 19)).data(meta(1)),
        data(Raw(20)),
    ),
    "bytes above the first maximum (X18)": (lambda: Victim().runs(greatest=19).data(meta(1)), data(Raw(20))),
    "a notice where everything was asked for (T78)": (lambda: Victim().runs(), data(Notify(1))),
    "a notice of a payload within the limit (X18)": (
        lambda: Victim().runs(wish=Eagerness(Wish.LIMITED, 20)).data(meta(1)),
        data(Notify(1)),
    ),
    "04 for a payload that is not too small (T80)": (
        lambda: Victim().runs(least=4).data(meta(1), pay(1), meta(2), Skip(Why.TOO_SMALL), meta(3), Skip(Why.TOO_SMALL)).data(meta(4)),
        data(Skip(Why.TOO_SMALL)),
    ),
    "05 for a payload that is not too large (X16)": (lambda: Victim().runs().data(meta(1)), data(Skip(Why.TOO_LARGE))),
    "06 where nothing may be left out (T81)": (
        lambda: Victim().runs(may_skip=False).data(meta(1)),
        data(Skip(Why.NOT_AVAILABLE)),
    ),
    "07 beyond what we have sent (X20)": (lambda: Victim().runs().data(meta(1)), data(SkipBytes(1))),
    # Backlinks.
    "a backlink that is known (T36)": (
        lambda: Victim().runs().data(meta(1), pay(1), meta(2), pay(2), meta(3), Raw(0)),
        data(meta(4, backlink=True)),
    ),
    "no backlink where it is not known (T36)": (
        lambda: Victim().runs(offer(end=40, sparse=True)).data(meta(1), pay(1)),
        data(meta(4)),
    ),
    "a backlink in entry 2, which has none of its own": (
        lambda: Victim().runs().data(meta(1), pay(1)),
        data(meta(2, backlink=True)),
    ),
    # What is wrong.
    "a bad signature in safe mode (G1)": (lambda: Victim().runs(), data(bad_signature)),
    "a wrong payload in safe mode (G1)": (lambda: Victim().runs().data(meta(1)), data(wrong_payload)),
    "an apology in safe mode (G2)": (lambda: Victim().runs().data(meta(1), raw(b"bamboo")), data(Apology())),
    "an apology for what was right (G3)": (
        lambda: Victim(greedy=True).runs().data(meta(1), pay(1)),
        data(Apology()),
    ),
    "an apology after a skip (G3)": (
        lambda: Victim(greedy=True).runs().data(meta(1), raw(b"bam"), Skip(Why.NOT_AVAILABLE)),
        data(Apology()),
    ),
    "an apology for nothing (G3)": (lambda: Victim(greedy=True).runs(), data(Apology())),
    "an apology that comes too late (G4)": (
        lambda: Victim(greedy=True).runs().data(meta(1), wrong_payload),
        data(meta(2)),
    ),
    "bytes after a bad signature (T84)": (lambda: Victim(greedy=True).runs().data(bad_signature), data(Raw(3))),
    "a second apology (T85)": (
        lambda: Victim(greedy=True).runs().data(meta(1), raw(b"ba"), Apology(), raw(b"ba")),
        data(Apology()),
    ),
    # Compression.
    "compressed bytes without a window (Z4)": (lambda: Victim().runs().data(meta(1)), data(bytes.fromhex("09030403") + b"two")),
    "a copy from beyond the window (Z2)": (
        lambda: Victim(window=4).runs().data(meta(1)),
        data(bytes.fromhex("0908080561626364658305")),
    ),
    "a copy from nothing (Z2)": (lambda: Victim(window=9).runs().data(meta(1)), data(bytes.fromhex("09020401618102"))),
    "a message that decodes to less (Z3)": (lambda: Victim(window=9).runs().data(meta(1)), data(bytes.fromhex("0906060568656c6c6f"))),
}  # fmt: skip


@pytest.mark.parametrize("name", TERMINATES)
@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "byte by byte"])
def test_terminates(name: str, *, at_once: bool) -> None:
    """The connection is over, the store is as it was, and nothing more is taken."""
    make, (controls, datas) = TERMINATES[name]
    victim = make()
    before = deepcopy(victim.store.bytes), sorted(map(str, victim.store.entries))
    with pytest.raises(RemoteProtocolError):
        for messages, take, push in ((controls, victim.control, push_control), (datas, victim.data, push_data)):
            whole = b"".join(message if isinstance(message, bytes) else push(message) for message in messages)
            for piece in [whole] if at_once else [bytes((byte,)) for byte in whole]:
                take(piece)
    kept = {key: value for key, value in victim.store.bytes.items() if value}
    assert {key: value for key, value in before[0].items() if value} == kept or not at_once
    assert before[1] == sorted(map(str, victim.store.entries)) or not at_once
    with pytest.raises(LocalProtocolError):
        victim.control(Grant(1))


GOES_ON: dict[str, Callable[[], Any]] = {
    "T25 credit of zero": lambda: Victim().control(Grant(0)),
    "T70 an end above the one before": lambda: Victim().control(offer(start=5, end=10)).control(Adjust(0, end=12), Adjust(0, end=10)),
    "T71 the same bounds": lambda: Victim().control(offer(least=10, greatest=10)).control(Adjust(0, least=10, greatest=10)),
    "min above max (C6)": lambda: Victim().control(offer(least=10, greatest=5)),
    "upper outside the pool (C4)": lambda: Victim().control(offer(start=5, end=9, upper=11)),
    "cancels with any code": lambda: [Victim().runs().control(Cancel(0, Code(code))) for code in range(128, 133)],
    "83 without a cancel of ours (C19)": lambda: Victim().runs().control(Cancel(0, Code.CONFIRMING)),
    "T66 crossing cancels": lambda: Victim().runs().cancels().control(Cancel(0, Code.END_OF_RANGE)).data(Marker(0)),
    "T67 a marker before its cancel": lambda: Victim().runs().cancels().data(Marker(0)).control(Cancel(0, Code.CONFIRMING)),
    "an adjustment after our cancel (C13)": lambda: Victim().runs().cancels().control(Adjust(0, NOTHING)),
    "data after our cancel (M3)": lambda: Victim().runs().cancels().data(meta(1), pay(1), meta(2)),
    "an early marker (M2)": lambda: Victim().data(Marker(0)).control(offer()),
    "T77 data that an earlier wish allows": lambda: Victim().runs().adjusts(eagerness=NOTHING).data(meta(1), pay(1)),
    "notices that an earlier wish allows": lambda: Victim().runs(wish=NOTHING).adjusts(eagerness=EVERYTHING).data(Notify(3)),
    "T79 a notice above the limit": lambda: Victim().runs(wish=Eagerness(Wish.LIMITED, 19)).data(meta(1), Notify(1)),
    "T80 a payload that is too small": lambda: Victim().runs(least=4).data(meta(1), pay(1), meta(2), Skip(Why.TOO_SMALL)),
    "a payload outside bounds we tightened later": lambda: Victim().runs().adjusts(greatest=5).data(meta(1), pay(1)),
    "02 for a payload out of bounds (X13)": lambda: Victim().runs(greatest=5).data(meta(1), Notify(1)),
    "T81 a payload that is not available": lambda: Victim().runs().data(meta(1), Skip(Why.NOT_AVAILABLE)),
    "a skip in the middle of a payload (X14)": lambda: Victim().runs().data(meta(1), raw(b"bam"), Skip(Why.NOT_AVAILABLE), meta(2)),
    "T82 an empty payload": lambda: Victim().runs().data(meta(1), pay(1), meta(2), pay(2), meta(3), Raw(0), meta(4)),
    "pieces of no bytes (X12)": lambda: Victim().runs().data(meta(1), Raw(0), SkipBytes(0), pay(1)),
    "03 00 (X5)": lambda: Victim().runs().data(Notify(0)),
    "a switch to the same, and away in a payload (X2)": lambda: Victim().runs().control(offer(7, None, lower=1, id=2)).confirms(proposal_id=2).data(meta(1), raw(b"bam"), Switch(0), Switch(2), Switch(0), raw(b"boo")),
    "a switch to what is not confirmed (X3)": lambda: Victim().control(offer()).data(Switch(0)),
    "two markers of different proposals (T89)": lambda: Victim().runs().control(offer(7, None, lower=1, id=2)).confirms(proposal_id=2).cancels().data(Marker(0)).cancels(proposal_id=2).data(Marker(2)),
    "unverifiable metadata (X7)": lambda: Victim().runs(offer(10, 14, lower=10, hash=LONG.entries[8].hash)).data(meta(10, log=LONG), pay(10, LONG), meta(11, log=LONG), pay(11, LONG), meta(12, log=LONG), pay(12, LONG)),
    "payloads behind an unknown start (X7)": lambda: Victim().runs(offer(1, 1, lower=None, hash=H1, offset=7)).data(raw(b"bamboo bamboo")),
    "T84 an apology for metadata, other proposals between": lambda: Victim(greedy=True).runs().control(offer(7, None, lower=1, id=2)).confirms(NOTHING, proposal_id=2).data(bad_signature, Switch(2), Notify(1), Switch(0), Apology(), meta(1)),
    "T85 an apology in the middle": lambda: Victim(greedy=True).runs().data(meta(1), raw(b"xx"), Apology(), pay(1), meta(2)),
    "an apology for a whole wrong payload": lambda: Victim(greedy=True).runs().data(meta(1), wrong_payload, Apology(), pay(1), meta(2)),
    "a literal peer's longer numbers (E1)": lambda: Victim().runs().data(meta(1), bytes.fromhex("08f814") + b"bamboo bamboo bamboo"),
    "T54 history of an earlier message": lambda: Victim(window=1024).runs().data(meta(1), bytes.fromhex("0907080762616d626f6f20"), bytes.fromhex("090d028d07"), meta(2)),
    "T30 a compressed payload": lambda: Victim(window=1024).runs().data(meta(1), bytes.fromhex("09140a0762616d626f6f208d07"), meta(2)),
}  # fmt: skip


@pytest.mark.parametrize("name", GOES_ON)
def test_goes_on(name: str) -> None:
    """What must not end a connection does not."""
    GOES_ON[name]()


# -- what follows --------------------------------------------------------------------------------------------------


def test_what_came_is_kept() -> None:
    """Entries and payloads come out with their bytes, whatever way they were sent."""
    victim = Victim(window=1024).runs().data(meta(1), bytes.fromhex("09140a0762616d626f6f208d07"), meta(2), pay(2))
    victim.data(meta(3), Raw(0), meta(4), pay(4), meta(5), pay(5))
    assert [event.entry for event in victim.events if isinstance(event, EntryReceived)] == LOG.entries
    for entry in LOG.entries:
        assert victim.store.bytes[entry.hash] == LOG.payloads[entry.hash]
    assert all(event.checked for event in victim.events if isinstance(event, PayloadReceived) and event.complete)
    assert [Cancel(0, Code.END_OF_RANGE)] == _said(victim)[-1:]


def _said(victim: Victim) -> list[Any]:
    data, found, at = victim.connection.control_to_send(), [], 0
    while at < len(data):
        message, at = pull_control(data, at)
        found.append(message)
    return found


def test_an_apology_takes_back() -> None:
    """T84, T85: the cursor goes back, what came of a payload is to be dropped, and it comes again."""
    victim = Victim(greedy=True).runs().data(meta(1), raw(b"xx"), Apology())
    assert isinstance(victim.events[-1], PayloadFailed)
    victim.data(pay(1), meta(2))
    assert victim.store.bytes[LOG.entries[0].hash] == b"bamboo bamboo bamboo"
    victim = Victim(greedy=True).runs().data(bad_signature, Apology(), meta(1))
    assert [event.entry.seq for event in victim.events if isinstance(event, EntryReceived)] == [1]


@pytest.mark.parametrize(
    ("ours", "theirs", "winner"),
    [((5, 12), (10, 20), 1), ((10, 20), (5, 12), 0), ((5, None), (5, 9), 0), ((5, 9), (5, None), 0)],
    ids=["T62 ours begins earlier", "T62 theirs begins earlier", "T63 ours endless", "T63 theirs endless"],
)
def test_overlapping_proposals(ours: tuple[int, int | None], theirs: tuple[int, int | None], winner: int) -> None:
    """T62, T63: of two that cross, the one that begins later was never made; of equals, that of the reactive side."""
    victim = Victim().proposes(offer(*ours, lower=1)).control(offer(*theirs, lower=1))
    assert set(victim.connection.exchanges) == {winner}
    assert [event.proposal.id for event in victim.events if isinstance(event, Offered)] == ([0] if winner == 0 else [])
    assert _said(victim) == []
    if winner == 1:  # messages for what fell are ignored until the winner is answered
        victim.control(Adjust(0, NOTHING), Cancel(0, Code.DO_NOT_RETRY)).data(Marker(0), Switch(0))
        victim.control(Adjust(1, EVERYTHING))
        with pytest.raises(RemoteProtocolError):
            victim.control(Adjust(0, NOTHING))


def test_several_overlapping_proposals() -> None:
    """T64: the first falls to what came, which falls to the second."""
    victim = Victim().proposes(offer(10, 20, lower=1)).proposes(offer(1, 5)).control(offer(3, 12, lower=1))
    assert set(victim.connection.exchanges) == {3}
    assert not any(isinstance(event, Offered) for event in victim.events)


def test_a_cancelled_proposal_takes_part() -> None:
    """T65: one that we cancelled before it was answered falls like any other, and nothing more is said of it."""
    victim = Victim().proposes(offer(10, 20, lower=1)).cancels(proposal_id=1)
    _said(victim)
    victim.control(offer(5, 12, lower=1))
    assert set(victim.connection.exchanges) == {0}
    assert victim.connection.data_to_send() == b""


def test_proposing_where_an_answer_is_due() -> None:
    """C18: what overlaps with a proposal of the peer that was not answered is not proposed."""
    victim = Victim().control(Grant(5), offer(5, 12, lower=1))
    assert not victim.connection.may_propose(offer(1, 5))
    assert victim.connection.may_propose(offer(1, 4))
    with pytest.raises(LocalProtocolError):
        victim.connection.propose(offer(1, 5))


def test_data_overtakes_a_confirmation() -> None:
    """T87: data for a proposal that is not confirmed yet waits until the confirmation is there."""
    victim = Victim().proposes(offer()).data(Switch(1), meta(1), pay(1))
    assert victim.connection.receiver.unread > 0
    assert not any(isinstance(event, EntryReceived) for event in victim.events)
    victim.control(Adjust(1, EVERYTHING))
    assert victim.connection.receiver.unread == 0
    assert victim.store.bytes[LOG.entries[0].hash] == b"bamboo bamboo bamboo"


def test_a_confirmation_that_crosses_our_cancellation() -> None:
    """Data that waited for the confirmation is read all the same, so that what is behind it comes."""
    victim = Victim().proposes(offer()).control(offer(7, None, lower=1)).confirms(NOTHING)
    victim.data(Switch(1), meta(1), Switch(0), Notify(1)).cancels(proposal_id=1)
    assert victim.connection.receiver.unread > 0
    victim.control(Adjust(1, EVERYTHING))
    assert victim.connection.receiver.unread == 0
    assert any(isinstance(event, Noticed) for event in victim.events)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda victim: victim.connection.propose(offer(start=5, lower=3, hash=H1)),
        lambda victim: victim.connection.propose(offer(start=5, end=4)),
        lambda victim: victim.connection.propose(offer(end=None, sparse=True)),
        lambda victim: victim.connection.confirm(0, end=4),
        lambda victim: victim.connection.confirm(0, end=9, upper=8),
        lambda victim: victim.connection.confirm(2),
        lambda victim: victim.connection.adjust(Adjust(0, EVERYTHING)),
        lambda victim: victim.connection.adjust(Adjust(0, EVERYTHING, end=7)),
        lambda victim: victim.connection.cancel(9),
    ],
)
def test_calls_that_make_no_sense(wrong: Callable[[Victim], object]) -> None:
    """They are refused as the caller's fault, nothing is said to the peer, and the connection goes on."""
    victim = Victim().control(Grant(5), offer(start=30, end=None, lower=1))
    with pytest.raises(LocalProtocolError):
        wrong(victim)
    assert _said(victim) == []
    victim.confirms(end=40)
    with pytest.raises(LocalProtocolError):
        victim.confirms()


def test_the_end_of_the_log() -> None:
    """T90: behind an entry that ends the log nothing follows, and the proposal ends."""
    victim = Victim(1, 2, 3, 4).runs(offer(5, None, lower=4, hash=H1)).data(meta(4, backlink=True), meta(5))
    _said(victim)
    victim.data(pay(5))
    assert _said(victim) == [Cancel(0, Code.END_OF_RANGE)]


@pytest.mark.parametrize(
    ("held", "proposal", "answer"),
    [
        ((1, 2, 3, 4, 5), offer(8, 10, lower=8, hash=H4), Cancel(0, Code.END_OF_LOG, seq=5)),
        ((1, 2), offer(5, None, lower=4, hash=OTHER_1.hash), Cancel(0, Code.HASH_DIFFERS, (LOG.entries[0],))),
        ((1, 2), offer(2, None, lower=None, offset=3, hash=OTHER_2.hash), Cancel(0, Code.HASH_DIFFERS, (LOG.entries[1],))),
        ((2,), offer(2, None, lower=2, hash=OTHER_1.hash), Cancel(0, Code.DO_NOT_RETRY)),
        ((1, 2), offer(2, None, lower=None, offset=4, hash=H2), Cancel(0, Code.DO_NOT_RETRY)),
    ],
    ids=["T91 end of log", "C24 hash", "C24 hash of the start", "C24 only the link", "C25 offset too large"],
)  # fmt: skip
def test_objections(held: tuple[int, ...], proposal: Proposal, answer: Cancel) -> None:
    """C24 to C26: what speaks against a proposal is said at once."""
    victim = Victim(*held).control(proposal)
    assert _said(victim) == [answer]
    assert not any(isinstance(event, Offered) for event in victim.events)


@pytest.mark.parametrize("position", [1, 2])
def test_a_fork_is_shown(position: int) -> None:
    """87: a log that is known to be forked is answered with the proof, once what is before the fork was sent."""
    victim = Victim(1, 2)
    victim.store.looks_for_forks = True
    victim.store.put(OTHER_1 if position == 1 else OTHER_2)
    victim.control(offer())
    if position == 2:
        victim.confirms().connection.respond(10**6)
        assert push_data(meta(1)) in victim.connection.data_to_send()
    answer = _said(victim)[-1]
    assert (answer.code, len(answer.entries)) == (Code.FORKED, 2)
    assert {LOG.entries[position - 1], OTHER_1 if position == 1 else OTHER_2} == set(answer.entries)


@pytest.mark.parametrize("inside", [False, True])
def test_another_entry_that_comes_after_the_confirmation(inside: bool) -> None:
    """C24: where a proposal begins we come to hold another entry than the peer: nothing is sent on top of it.

    It would put together what it was sent with its own entry, and take us for a forger.
    """
    size = OTHER_2.size
    victim = Victim(1).control(offer(2, None, lower=None, offset=1 if inside else size, hash=OTHER_2.hash)).confirms()
    _said(victim)
    for seq in (2, 3):
        victim.store.put(LOG.entries[seq - 1], LOG.payloads[LOG.entries[seq - 1].hash])
    victim.connection.wake([LOG.entries[0].log])
    victim.connection.respond(10**6)
    assert _said(victim) == [Cancel(0, Code.HASH_DIFFERS, (LOG.entries[1],))]
    assert push_data(meta(3)) not in victim.connection.data_to_send()


def test_a_fork_is_shown_behind_what_the_peer_told() -> None:
    """87: the peer was first to tell of everything up to the fork and beyond; it is shown the proof all the same."""
    knowing = Side(proactive=True, store=store_of(LOG, 1, 2))
    knowing.store.looks_for_forks = True
    knowing.store.put(OTHER_2)
    other = Side(proactive=False, store=store_of(LOG, 1, 2, 3))
    pair = Pair(knowing, other)
    pair.run()
    behind_the_first = Proposal(0, *LOG.entries[0].log, 1, None, None, None, H1, LOG.entries[0].size, NOTHING)
    knowing.connection.propose(behind_the_first)
    other.take(knowing.session.data_to_send())
    knowing.take(other.output())
    assert any(isinstance(event, Noticed) for event in knowing.events)
    pair.run()
    (cancelled,) = [event for event in other.events if isinstance(event, Cancelled)]
    assert cancelled.cancel.code is Code.FORKED
    assert {LOG.entries[1], OTHER_2} == set(cancelled.entries)


@pytest.mark.parametrize("known", [1, 2, None])
def test_a_lower_fork_is_the_answer_to_one(known: int | None) -> None:
    """87: a peer that cancels because of a fork is shown the lower one, if we know of it; else it is confirmed only."""
    victim = Victim(1, 2).runs()
    _said(victim)
    victim.store.looks_for_forks = True
    if known is not None:
        victim.store.put(OTHER_1 if known == 1 else OTHER_2)
    victim.control(Cancel(0, Code.FORKED, (LOG.entries[1], OTHER_2)))
    answer = _said(victim)[-1]
    if known == 1:
        assert Code.FORKED is answer.code
        assert {LOG.entries[0], OTHER_1} == set(answer.entries)
    else:
        assert Cancel(0, Code.CONFIRMING) == answer


def test_ids_are_free_again() -> None:
    """C27, M5: an id may be used again after both cancellations, with the last marker still under way."""
    victim = Victim().runs().cancels().control(Cancel(0, Code.CONFIRMING))
    victim.control(offer(start=7, end=None, lower=1))
    victim.data(meta(1), Marker(0))  # of its use before
    victim.confirms().data(Switch(0), meta(1))
    assert [event.entry.seq for event in victim.events if isinstance(event, EntryReceived)][-1] == 1
    assert not victim.connection._ids.owed


def test_an_end_that_is_lowered_too_late() -> None:
    """C11: what was passed cannot be taken back: the proposal is cancelled, and what still comes is only read."""
    victim = Victim().runs().data(meta(1), pay(1), meta(2), pay(2))
    _said(victim)
    victim.control(Adjust(0, end=1))
    assert _said(victim) == [Cancel(0, Code.END_OF_RANGE)]
    victim.data(meta(3), b"\x08\x03abc", Skip(Why.TOO_LARGE), Notify(100), Marker(0))
    victim.control(Cancel(0, Code.CONFIRMING))
    assert not victim.connection.exchanges


def test_catching_up() -> None:
    """T75, T76: what the peer sent is not sent back; in the same payload we go on where the peer is."""
    victim = Victim(log=LONG)
    victim.control(offer(11, 14, lower=11, hash=LONG.entries[9].hash)).confirms()
    victim.data(Switch(0), meta(11, log=LONG), pay(11, LONG))
    victim.store.put(LONG.entries[11], LONG.payloads[LONG.entries[11].hash])
    victim.connection.wake([LONG.entries[0].log])
    victim.connection.respond(10**6)
    sent = victim.connection.data_to_send()
    assert sent.startswith(push_data(Switch(0)) + push_data(Notify(2)) + push_data(meta(12, backlink=True, log=LONG)))
