"""What a peer's bytes bring, with bytes that no encoder of ours has made (``tests.proposals.byhand``).

Specification: docs/specs/proposals.md, "Session", "Cursors", "Cancellations", "Payloads", "What is refused".
"""

from __future__ import annotations

import pytest

from culm.bamboo import PayloadHasher
from culm.errors import RemoteProtocolError
from culm.proposals import EVERYTHING, Adjust, Connection, Setup
from culm.transfer import EntryReceived, Kept, PayloadFailed, PayloadReceived
from culm.types import Log
from tests.memory import MemoryStore
from tests.proposals import byhand as hand
from tests.proposals.examples import H1, LOG, OTHER_2
from tests.proposals.victim import Victim, offer


@pytest.mark.parametrize("greedy", [False, True])
def test_items_in_front_of_a_fault_of_the_control_channel(*, greedy: bool) -> None:
    """S9: an abort loses only what is unfinished, although bytes of the control channel are dealt with first."""
    connection = Connection(MemoryStore(), proactive=False, setup=Setup(greedy, greedy))
    list(connection.receive_data((hand.GREEDY if greedy else hand.SAFE) + hand.GRANTS, 0.0))
    list(connection.receive_data(hand.control(hand.REQUEST_1_TO_3), 0.0))
    connection.endpoint.confirm(Adjust(0, EVERYTHING))
    connection.data_to_send()
    items = hand.data(hand.SWITCH, hand.M1, hand.P1, hand.M2, hand.P2)
    found = []
    with pytest.raises(RemoteProtocolError, match=r"control channel at byte 51: no message begins with 88"):
        for event in connection.receive_data(items + hand.control(b"\x88"), 0.0):
            found.append(event)  # noqa: PERF402 - those in front of the fault are kept
    assert [1, 2] == [event.entry.seq for event in found if isinstance(event, EntryReceived)]
    assert [b"bamboo bamboo bamboo", b"two"] == [event.data for event in found if isinstance(event, PayloadReceived)]


@pytest.mark.parametrize("at_once", [True, False])
def test_another_entry_than_ours_shows_the_fork(*, at_once: bool) -> None:
    """X21: an entry of the peer that contradicts ours ends even a finite proposal with 87 and both, not with 82."""
    victim = Victim(1, 2).control(hand.REQUEST_1_TO_3).confirms()
    victim.connection.control_to_send()
    messages = (hand.SWITCH, hand.M1, hand.P1, hand.M2_OTHER, hand.P2_OTHER)
    victim.data(b"".join(messages)) if at_once else victim.data(*messages)
    assert bytes.fromhex("8700") + hand.E2 + hand.E2_OTHER == victim.connection.control_to_send()


def test_the_fork_is_shown_behind_entries_that_we_lack() -> None:
    """X21: what is held is asked for once for many entries, and the entry among them that we hold is still compared."""
    victim = Victim(2).control(hand.REQUEST_1_TO_3).confirms()
    victim.connection.control_to_send()
    victim.data(hand.SWITCH + hand.M1 + hand.P1 + hand.M2_OTHER + hand.P2_OTHER)
    assert bytes.fromhex("8700") + hand.E2 + hand.E2_OTHER == victim.connection.control_to_send()


def test_the_store_is_asked_once_for_entries_that_we_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of entries that come at once the store is asked at the first; where none is held behind it, that says it all."""
    victim = Victim().control(hand.REQUEST_1_TO_3).confirms()
    asked: list[int] = []
    page = victim.store.page

    def counted(log: Log, seq: int, *, ascending: bool, limit: int) -> list[Kept]:
        asked.append(seq)
        return page(log, seq, ascending=ascending, limit=limit)

    monkeypatch.setattr(victim.store, "page", counted)
    victim.data(hand.SWITCH + hand.M1 + hand.P1 + hand.M2 + hand.P2 + hand.M3 + hand.P3)
    assert [1] == asked
    assert [1, 2, 3] == [event.entry.seq for event in victim.events if isinstance(event, EntryReceived)]


def test_a_fork_that_is_known_is_shown_at_the_end() -> None:
    """X21: a peer that sends a whole range above a fork that we know of is shown it, and not told that all is well."""
    victim = Victim(1, 2)
    victim.store.looks_for_forks = True
    victim.store.put(OTHER_2)
    victim.control(hand.REQUEST_1_TO_3).confirms()
    victim.connection.control_to_send()
    victim.data(hand.SWITCH, hand.M1, hand.P1, hand.M2, hand.P2, hand.M3, hand.P3)
    assert victim.connection.control_to_send() in (
        bytes.fromhex("8700") + hand.E2 + hand.E2_OTHER,
        bytes.fromhex("8700") + hand.E2_OTHER + hand.E2,
    )


def test_a_forged_entry_proves_no_fork() -> None:
    """X21: the signature is looked at before a peer is told that its entry contradicts ours."""
    victim = Victim(1, 2).control(hand.REQUEST_1_TO_3).confirms()
    victim.connection.control_to_send()
    with pytest.raises(RemoteProtocolError, match="entry 2 has a bad signature"):
        victim.data(hand.SWITCH + hand.M1 + hand.P1 + hand.M2_OTHER[:-1] + b"\xff")
    assert victim.connection.control_to_send() == b""


def test_bytes_that_the_peer_has_sent_are_left_out() -> None:
    """X20: the peer stops inside payload 1; we have it by then from elsewhere, and go on behind the peer's bytes."""
    victim = Victim(1).control(hand.REQUEST_1_TO_3).confirms()
    victim.store.bytes.clear()
    victim.data(hand.SWITCH, hand.M1, bytes.fromhex("0807") + b"bamboo ")
    victim.store.put(victim.store.entries[OTHER_2.log, 1][0], b"bamboo bamboo bamboo")
    victim.connection.wake([OTHER_2.log])
    victim.connection.respond(10**6)
    assert hand.SWITCH + bytes.fromhex("02 0707 080d") + b"bamboo bamboo" == victim.connection.data_to_send()


def test_a_payload_that_we_lack_is_not_called_too_large() -> None:
    """X13: after 05 the peer would take it that we have the payload, and never send it. So we say 06."""
    victim = Victim(1, 2)
    victim.store.drop_payload(LOG.entries[0])
    victim.control(hand.UP_TO_5_BYTES).confirms().connection.respond(10**6)
    assert hand.SWITCH + hand.M1 + bytes.fromhex("06") + hand.M2 + hand.P2 == victim.connection.data_to_send()


@pytest.mark.parametrize("count", [6, 7])
def test_a_notice_of_one_item_too_many(count: int) -> None:
    """X18: six items that we have sent may be passed, and the seventh is an entry that the peer has to send."""
    victim = Victim(1, 2, 3).control(hand.REQUEST_1_FOR_EVER).confirms().sends().data(hand.SWITCH)
    if count == 6:
        victim.data(bytes.fromhex("0306"))
    else:
        with pytest.raises(RemoteProtocolError, match="only told of entry 4, but has to send it"):
            victim.data(bytes.fromhex("0307"))


@pytest.mark.parametrize(
    ("held", "without", "said"),
    [((1, 2, 3), (2,), "8400"), ((1, 2), (2,), ""), ((1, 2, 3), (), "")],
    ids=["in the middle", "the last", "none"],
)
def test_a_mandatory_payload_that_we_lack(held: tuple[int, ...], without: tuple[int, ...], said: str) -> None:
    """X25, 84: we do not wait for a payload that we lack if that keeps us from sending what is behind it."""
    victim = Victim(*held)
    for seq in without:
        victim.store.drop_payload(LOG.entries[seq - 1])
    victim.control(hand.MANDATORY_1_FOR_EVER).confirms()
    victim.connection.control_to_send()
    victim.connection.respond(10**6)
    assert bytes.fromhex(said) == victim.connection.control_to_send()
    assert (hand.SWITCH + hand.M1 + hand.P1 + hand.M2) in victim.connection.data_to_send()


def test_a_wrong_payload_that_is_not_taken_back() -> None:
    """G4: a greedy peer that ends the proposal behind wrong bytes, without an apology, is to blame for them."""
    victim = Victim(greedy=True).control(hand.REQUEST_1_TO_3).confirms()
    victim.data(hand.SWITCH, hand.M1, bytes.fromhex("0814") + b"x" * 20)
    assert [True] == [event.is_taken_back for event in victim.events if isinstance(event, PayloadFailed)]
    victim.control(bytes.fromhex("8200")).data(bytes.fromhex("2000"))
    assert [True, False] == [event.is_taken_back for event in victim.events if isinstance(event, PayloadFailed)]


def test_a_wrong_beginning_of_ours_is_not_the_peers_fault() -> None:
    """G1: a greedy peer sends the rest of a payload whose beginning we hold wrong, and goes on without an apology."""
    begun = PayloadHasher()
    begun.update(b"BAMBOO ")
    victim = Victim(1, greedy=True).proposes(offer(1, 3, lower=None, hash=H1, offset=7), begun=begun)
    victim.control(bytes.fromhex("7001")).data(
        bytes.fromhex("0001 080d") + b"bamboo bamboo" + hand.M2 + hand.P2 + hand.M3 + hand.P3
    )
    assert [False] == [event.is_theirs for event in victim.events if isinstance(event, PayloadFailed)]
    assert [2, 3] == [event.entry.seq for event in victim.events if isinstance(event, EntryReceived)]


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        (b"\x88", r"control channel at byte 47: no message begins with 88"),
        (bytes.fromhex("0400 04"), r"upper pool up to entry 4 .* has no end \(message at byte 47 of the control"),
        (bytes.fromhex("8000 8000"), r"a cancellation for proposal 0, .* \(message at byte 49 of the control"),
    ],
    ids=["no message", "a lone upper", "two cancellations"],
)
def test_reasons_of_the_control_channel(messages: bytes, reason: str) -> None:
    """A fault is told with the byte of the channel at which its message stands, so that the peer's author finds it."""
    victim = Victim().control(hand.REQUEST_1_FOR_EVER)
    with pytest.raises(RemoteProtocolError, match=reason):
        victim.control(messages)


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        (hand.P1, r"expected: the metadata of entry 1 \(message at byte 2 of the data channel\)"),
        (hand.M1 + hand.P1 + b"\x0a", r"data channel at byte 156: no message begins with 0a"),
        (hand.M1 + hand.P1 + hand.M2[:1] + 2 * bytes.fromhex("0040" + 64 * "ab") + hand.M2[1:], "only a backlink"),
    ],
    ids=["a payload too early", "no message", "a lipmaalink"],
)
def test_reasons_of_the_data_channel(messages: bytes, reason: str) -> None:
    """The same for items. A link that is never sent is called so, and not a hash function that is not known."""
    victim = Victim().control(hand.REQUEST_1_TO_3).confirms().data(hand.SWITCH)
    with pytest.raises(RemoteProtocolError, match=reason):
        victim.data(messages)
