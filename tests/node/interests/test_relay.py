"""A relay asks upstream for what its peers want, and tells nobody their own interest.

Specification: docs/specs/culm.md, "Relays".
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from culm.errors import RemoteProtocolError
from culm.node.culm.session import CulmSession
from culm.node.interests.missing import EVERYTHING
from culm.node.interests.policy import Policy
from culm.node.interests.relay import Relay
from culm.ranges import RangeSet, UnreadRanges, read_range
from culm.session import Interests
from culm.testing import build_log
from tests.node.links import CONFIG, run
from tests.node.peers import key, serving, until

if TYPE_CHECKING:
    from tests.node.links import Party

ALICE, BOB = bytes([1]) * 32, bytes([2]) * 32
ENTRY_5, ENTRY_6 = (UnreadRanges(bytes((1, 0xE0, seq))) for seq in (5, 6))
BOTH = UnreadRanges(bytes.fromhex("01 a00506"))
NOTHING = UnreadRanges(b"\0")


class Changes:
    """A relay that follows entry 5 of Alice's log 1, and how often it said that something changed."""

    def __init__(self, policy: Policy | None = None) -> None:
        self.count = 0
        self.relay = Relay(policy or Policy(interests={(ALICE, 1): ENTRY_5}), self.note)

    def note(self) -> None:
        """Count a change."""
        self.count += 1

    def wanted(self, peer: object = None) -> dict[object, str] | None:
        """What a peer is told, or what is wanted in all; the ranges in hex."""
        interests = self.relay.policy_for(peer).interests
        return None if interests is None else {name: ranges.encode().hex() for name, ranges in interests.items()}


def test_the_union() -> None:
    """What two peers and the operator want of one log is merged, and another log is added."""
    changes = Changes()
    changes.relay.hear("one", Interests({(): NOTHING, (ALICE, 1): ENTRY_6}))
    changes.relay.hear("two", Interests({(): NOTHING, (BOB, 2): ENTRY_6, (ALICE, 1): ENTRY_6}))
    assert {(ALICE, 1): "01a00506", (BOB, 2): "01e006"} == changes.wanted()
    assert 2 == changes.count


def test_nobody_is_told_their_own_interest() -> None:
    """To a peer counts what the operator and all others want."""
    changes = Changes()
    changes.relay.hear("one", Interests({(): NOTHING, (BOB, 2): ENTRY_6}))
    changes.relay.hear("two", Interests({(): NOTHING, (ALICE, 1): ENTRY_6}))
    for _ in range(2):  # The second time from what was kept.
        assert {(ALICE, 1): "01a00506"} == changes.wanted("one")
        assert {(ALICE, 1): "01e005", (BOB, 2): "01e006"} == changes.wanted("two")
        assert {(ALICE, 1): "01a00506", (BOB, 2): "01e006"} == changes.wanted()


def test_the_same_again_and_the_end() -> None:
    """Saying the same again changes nothing; an end takes the interest away."""
    changes = Changes()
    told = Interests({(): NOTHING, (BOB,): EVERYTHING})
    changes.relay.hear("one", told)
    changes.relay.hear("one", Interests(told))
    assert {(ALICE, 1): "01e005", BOB: "010001"} == changes.wanted()
    assert 1 == changes.count
    changes.relay.leave("one")
    changes.relay.leave("one")
    assert {(ALICE, 1): "01e005"} == changes.wanted()
    assert 2 == changes.count


def test_the_most_exact_interest_counts() -> None:
    """Who wants all logs of an author, and of log 1 entry 6 alone, adds just that to what others want of log 1."""
    changes = Changes()
    changes.relay.hear("one", Interests({(): NOTHING, (ALICE,): EVERYTHING, (ALICE, 1): ENTRY_6}))
    changes.relay.hear("two", Interests({(): NOTHING, (ALICE, 7): ENTRY_5}))
    assert {(ALICE, 1): "01a00506", ALICE: "010001", (ALICE, 7): "010001"} == changes.wanted()


def test_everything() -> None:
    """A peer that wants all authors makes the relay want everything; without peers it wants what the operator wants."""
    changes = Changes()
    changes.relay.hear("one", Interests({(): EVERYTHING}))
    assert changes.relay.policy_for().interest((BOB, 7)) == EVERYTHING
    assert not changes.relay.policy_for("one").wants((BOB, 7))
    assert {(ALICE, 1): "01e005"} == changes.wanted("one")
    assert Changes(Policy()).wanted() is None


def test_named_logs_stay_named() -> None:
    """Whoever wants everything still asks by name for the logs that the operator or a peer names.

    By intervals and proposals a node asks for logs that it can name; that of everything says none.
    """
    changes = Changes()
    changes.relay.hear("one", Interests({(): EVERYTHING}))
    changes.relay.hear("two", Interests({(): NOTHING, (BOB, 2): ENTRY_6}))
    assert [(ALICE, 1), (BOB, 2)] == list(changes.relay.policy_for().interests or ())

    changes = Changes(Policy())
    changes.relay.hear("two", Interests({(): NOTHING, (BOB, 2): ENTRY_6}))
    assert [(BOB, 2)] == list(changes.relay.policy_for().interests or ())
    assert changes.relay.policy_for().wants((ALICE, 7))


def test_the_operator_decides() -> None:
    """The operator's other choices stay, and a blocked author is not asked for on behalf of anybody."""
    changes = Changes()
    changes.relay.hear("one", Interests({(): NOTHING, (BOB,): EVERYTHING}))
    changes.relay.change_policy(Policy(interests={}, block_authors=frozenset({BOB})))
    policy = changes.relay.policy_for()
    assert not policy.wants((BOB, 1))
    assert not policy.wants((ALICE, 1))


def test_a_malformed_interest() -> None:
    """A set that breaks the format ends the session of the peer that sent it."""
    with pytest.raises(RemoteProtocolError, match="an interest that breaks the format"):
        Changes().relay.hear("one", Interests({(ALICE, 1): UnreadRanges(bytes.fromhex("01 800505"))}))


@pytest.mark.slow
@pytest.mark.parametrize("relay", [True, False])
def test_a_phone_behind_a_station(parties: list[Party], *, relay: bool) -> None:
    """The phone gets a log that the station does not follow, through the station, from a node that has both logs.

    The station asks for it as long as the phone is there. Without the setting it asks for its own log alone.
    """
    far, station, phone = parties
    followed, wanted = build_log(3), build_log(4, seed=2)
    far.store.add([*followed.items(), *wanted.items()])
    entries = RangeSet([read_range("1..3")])

    async def main() -> None:
        follows = replace(CONFIG, relay=relay, policy=Policy(interests={key(followed): EVERYTHING}))
        wants = replace(CONFIG, policy=Policy(interests={key(wanted): entries}))
        async with serving(far, CONFIG) as (source, upstream), serving(station, follows, upstream) as (node, place):
            await until(lambda: len(station.holds()) == 1)
            async with serving(phone, wants, place) as (there, _):
                await until(lambda: len(there.sessions) == 1)
                if relay:
                    await until(lambda: phone.holds() == {key(wanted): [1, 2, 3]})
                else:
                    await asyncio.sleep(20)
                    assert {} == phone.holds()
                told = {(), key(followed), *([key(wanted)] if relay else [])}
                (session,) = source.sessions
                assert isinstance(session, CulmSession)
                assert told == session.connection.their_interests.keys() - {(station.identity.public,)}
            await until(lambda: len(node.sessions) == 1)
            await until(lambda: key(wanted) not in session.connection.their_interests)

    run(main)
    assert {key(followed), *([key(wanted)] if relay else [])} == station.holds().keys()
