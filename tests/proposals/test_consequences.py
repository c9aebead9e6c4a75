"""What follows from messages that keep to the rules: what is kept and what is said.

Specification: docs/specs/proposals.md, "Proposals", "Overlapping proposals", "Cancellations", "Cursors",
"Greedy sending", "Behaviour".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from culm.bamboo import Identity
from culm.errors import LocalProtocolError, RemoteProtocolError
from culm.proposals import (
    EVERYTHING,
    NOTHING,
    Adjust,
    Cancel,
    Cancelled,
    Code,
    Noticed,
    Offered,
    Proposal,
    Setup,
    can_rebuild,
)
from culm.proposals.data import Apology, Marker, Metadata, Notify, Raw, Skip, SkipBytes, Switch, Why, push_data
from culm.proposals.messages import Grant
from culm.testing.builders import LogBuilder
from culm.transfer import EntryReceived, PayloadFailed, PayloadReceived
from culm.wire.bymux import packet
from tests.proposals.examples import H1, H2, H4, LOG, OTHER_1, OTHER_2, store_of
from tests.proposals.pair import Pair, Side
from tests.proposals.victim import LONG, Victim, bad_signature, meta, offer, pay, raw, said

if TYPE_CHECKING:
    from collections.abc import Callable


def test_what_came_is_kept() -> None:
    """Entries and payloads come out with their bytes, whatever way they were sent."""
    victim = Victim(window=1024).runs().data(meta(1), bytes.fromhex("09140a0762616d626f6f208d07"), meta(2), pay(2))
    victim.data(meta(3), Raw(0), meta(4), pay(4), meta(5), pay(5))
    assert [event.entry for event in victim.events if isinstance(event, EntryReceived)] == LOG.entries
    for entry in LOG.entries:
        assert victim.store.bytes[entry.hash] == LOG.payloads[entry.hash]
    assert all(event.checked for event in victim.events if isinstance(event, PayloadReceived) and event.complete)
    assert [Cancel(0, Code.END_OF_RANGE)] == said(victim)[-1:]


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
    assert said(victim) == []
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
    said(victim)
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
        lambda victim: victim.connection.confirm(Adjust(0, EVERYTHING, end=4)),
        lambda victim: victim.connection.confirm(Adjust(0, EVERYTHING, end=9, upper=8)),
        lambda victim: victim.connection.confirm(Adjust(2, EVERYTHING)),
        lambda victim: victim.connection.confirm(Adjust(0, end=7)),
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
    assert said(victim) == []
    victim.confirms(end=40)
    with pytest.raises(LocalProtocolError):
        victim.confirms()


def test_the_end_of_the_log() -> None:
    """T90: behind an entry that ends the log nothing follows, and the proposal ends."""
    victim = Victim(1, 2, 3, 4).runs(offer(5, None, lower=4, hash=H1)).data(meta(4, backlink=True), meta(5))
    said(victim)
    victim.data(pay(5))
    assert said(victim) == [Cancel(0, Code.END_OF_RANGE)]


def test_a_branch_that_is_not_held_cannot_be_put_together() -> None:
    """A proposal on top of another entry than ours is of no use, even if ours may not be shown to the peer."""
    named, other = (offer(2, None, lower=None, offset=3, hash=value) for value in (H2, OTHER_2.hash))
    assert can_rebuild(named, store_of(LOG, 1, 2))
    assert not can_rebuild(other, store_of(LOG, 1, 2))


@pytest.mark.parametrize(
    ("held", "proposal", "answer"),
    [
        ((1, 2, 3, 4, 5), offer(8, 10, lower=8, hash=H4), Cancel(0, Code.END_OF_LOG, seq=5)),
        ((1, 2), offer(5, None, lower=4, hash=OTHER_1.hash), Cancel(0, Code.HASH_DIFFERS, (LOG.entries[0],))),
        (
            (1, 2),
            offer(2, None, lower=None, offset=3, hash=OTHER_2.hash),
            Cancel(0, Code.HASH_DIFFERS, (LOG.entries[1],)),
        ),
        ((2,), offer(2, None, lower=2, hash=OTHER_1.hash), Cancel(0, Code.DO_NOT_RETRY)),
        ((1, 2), offer(2, None, lower=None, offset=4, hash=H2), Cancel(0, Code.DO_NOT_RETRY)),
    ],
    ids=["T91 end of log", "C24 hash", "C24 hash of the start", "C24 only the link", "C25 offset too large"],
)  # fmt: skip
def test_objections(held: tuple[int, ...], proposal: Proposal, answer: Cancel) -> None:
    """C24 to C26: what speaks against a proposal is said at once."""
    victim = Victim(*held).control(proposal)
    assert said(victim) == [answer]
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
    answer = said(victim)[-1]
    assert (answer.code, len(answer.entries)) == (Code.FORKED, 2)
    assert {LOG.entries[position - 1], OTHER_1 if position == 1 else OTHER_2} == set(answer.entries)


@pytest.mark.parametrize("inside", [False, True])
def test_another_entry_that_comes_after_the_confirmation(inside: bool) -> None:
    """C24: where a proposal begins we come to hold another entry than the peer: nothing is sent on top of it.

    It would put together what it was sent with its own entry, and take us for a forger.
    """
    size = OTHER_2.size
    victim = Victim(1).control(offer(2, None, lower=None, offset=1 if inside else size, hash=OTHER_2.hash)).confirms()
    said(victim)
    for seq in (2, 3):
        victim.store.put(LOG.entries[seq - 1], LOG.payloads[LOG.entries[seq - 1].hash])
    victim.connection.wake([LOG.entries[0].log])
    victim.connection.respond(10**6)
    assert said(victim) == [Cancel(0, Code.HASH_DIFFERS, (LOG.entries[1],))]
    assert push_data(meta(3)) not in victim.connection.data_to_send()


@pytest.mark.parametrize("whole", [False, True])
def test_another_entry_that_was_just_sent(whole: bool) -> None:
    """The peer sends another entry than ours: it is shown the fork, and nothing of ours in its place or on top."""
    behind_the_first = offer(1, None, lower=None, hash=H1, offset=LOG.entries[0].size)
    victim = Victim(1, 2, 3).runs(behind_the_first).data(Raw(0))
    other = Metadata(OTHER_2.is_end, None, OTHER_2.size, OTHER_2.payload_hash, OTHER_2.signature)
    victim.data(other, *([raw(b"TWO")] if whole else []))
    victim.connection.respond(10**6)
    assert push_data(Marker(0)) == victim.connection.data_to_send()
    assert {LOG.entries[1], OTHER_2} == set(said(victim)[-1].entries)


@pytest.mark.parametrize("message", [Skip(Why.TOO_LARGE), raw(b"more than three"), raw(b"TWO")])
def test_what_is_said_of_another_entry_than_ours(message: Skip | bytes) -> None:
    """The peer goes on with the payload of an entry that it did not send, and may mean another: that is no breach."""
    behind_the_first = offer(1, None, lower=None, hash=H1, offset=LOG.entries[0].size)
    victim = Victim(1, 2).runs(behind_the_first, NOTHING).adjusts(eagerness=EVERYTHING, greatest=5)
    victim.data(Raw(0), Notify(1), message)
    assert not any(isinstance(event, PayloadReceived) and event.entry.seq == 2 for event in victim.events)
    assert victim.store.bytes[H2] == b"two"


def test_what_is_behind_something_the_peer_told_of() -> None:
    """The peer tells of the entry at which its proposal begins, which we lack: what we have behind it is sent."""
    victim = Victim(3, 4).control(offer(2, None, lower=None, hash=H2, offset=LOG.entries[1].size)).confirms(NOTHING)
    victim.sends().data(Switch(0), Notify(1))
    victim.connection.respond(10**6)
    assert push_data(meta(3)) + raw(b"") in victim.connection.data_to_send()


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
    assert {LOG.entries[1], OTHER_2} == set(cancelled.cancel.entries)


@pytest.mark.parametrize("known", [1, 2, None])
def test_a_lower_fork_is_the_answer_to_one(known: int | None) -> None:
    """87: a peer that cancels because of a fork is shown the lower one, if we know of it; else it is confirmed only."""
    victim = Victim(1, 2).runs()
    said(victim)
    victim.store.looks_for_forks = True
    if known is not None:
        victim.store.put(OTHER_1 if known == 1 else OTHER_2)
    victim.control(Cancel(0, Code.FORKED, (LOG.entries[1], OTHER_2)))
    answer = said(victim)[-1]
    if known == 1:
        assert Code.FORKED is answer.code
        assert {LOG.entries[0], OTHER_1} == set(answer.entries)
    else:
        assert Cancel(0, Code.CONFIRMING) == answer


def test_a_log_that_ends_for_us_alone() -> None:
    """The peer goes on behind the entry that ends the log for us: it has another one there, which is no breach."""
    victim = Victim(1, 2, 3, 4, 5).runs(offer(1, None)).sends()
    other = LOG.make(5, b"no end")
    other_5 = Metadata(False, None, other.size, other.payload_hash, other.signature)
    victim.data(Notify(8), other_5, raw(b"no end"), other_5, raw(b"no end"))
    assert [event.entry for event in victim.events if isinstance(event, EntryReceived)] == [other]
    assert victim.events[-1] == PayloadReceived(0, other, 0, b"no end", complete=True, checked=True)


def test_bytes_that_we_sent_of_what_is_forked_now() -> None:
    """The peer leaves out bytes that we sent of a payload, which is not shown any more since its log is forked."""
    behind_the_first = offer(1, None, lower=None, hash=H1, offset=LOG.entries[0].size)
    victim = Victim(1, 2, 3).runs(behind_the_first).sends()
    victim.store.looks_for_forks = True
    victim.store.put(OTHER_2)
    victim.data(Raw(0), Notify(1), SkipBytes(1))
    assert victim.store.held(OTHER_2.log).entries_around(2) is None


def test_signs_of_life_of_a_peer_that_ended_all_else() -> None:
    """A peer that ended everything but its channels is asked for signs of life on one of them, and at the end none."""
    side = Side(proactive=False)
    side.take(Setup().encode() + packet(4, None) + packet(5, None))
    side.output()
    side.session.keep_alive()
    assert side.output() == packet(2, 1)
    side.take(packet(4, 0) + packet(5, 0) + packet(4, 1) + packet(5, 1))
    side.output()
    side.session.keep_alive()
    assert side.output() == b""


def test_ids_are_free_again() -> None:
    """C27, M5: an id may be used again after both cancellations, with the last marker still under way."""
    victim = Victim().runs().cancels().control(Cancel(0, Code.CONFIRMING))
    victim.control(offer(start=7, end=None, lower=1))
    victim.data(meta(1), Marker(0))  # of its use before
    victim.confirms().data(Switch(0), meta(1))
    assert [event.entry.seq for event in victim.events if isinstance(event, EntryReceived)][-1] == 1
    assert not victim.connection.register.owed


def test_an_end_that_is_lowered_too_late() -> None:
    """C11: what was passed cannot be taken back: the proposal is cancelled, and what still comes is only read."""
    victim = Victim().runs().data(meta(1), pay(1), meta(2), pay(2))
    said(victim)
    victim.control(Adjust(0, end=1))
    assert said(victim) == [Cancel(0, Code.END_OF_RANGE)]
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


def test_an_entry_that_links_to_another_one_than_ours() -> None:
    """Behind a notice of ours the peer sends the entry above, of another branch: that is no fault, and shows later."""
    one, two = (LogBuilder(Identity(b"\x05" * 32), 0) for _ in range(2))
    for number in range(8):
        one.append(b"%d" % number)
    two.entries, two.payloads = one.entries[:], dict(one.payloads)
    for _ in range(3):
        one.append(b"one branch")
        two.append(b"the other")
    a, b = Side(proactive=True), Side(proactive=False)
    for side, log, held in ((a, one, 8), (b, two, 10)):
        for entry in log.entries[:held]:
            side.put(entry, log.payloads[entry.hash])
    pair, head = Pair(a, b), one.entries[7]
    pair.run()
    a.connection.propose(Proposal(0, *head.log, 8, None, None, None, head.hash, head.size, NOTHING))
    pair.run()
    for entry in one.entries[8:]:
        a.put(entry, one.payloads[entry.hash])
    pair.run()
    assert [Code.RESOURCE_LIMIT] == [event.cancel.code for event in a.events if isinstance(event, Cancelled)]
    assert b.store.items(head.log) == ([(1, 10)], [(1, 10)])
    newest = one.entries[9]
    a.connection.propose(Proposal(0, *head.log, 10, None, None, None, newest.hash, newest.size))
    pair.run()
    assert Code.HASH_DIFFERS in [event.cancel.code for event in a.events if isinstance(event, Cancelled)]
