"""Both sides of a session: the handshake, and what may be said when.

Specification: docs/specs/culm.md, "Streams", "The handshake", "Penalties", "States", "Limits".
"""

from __future__ import annotations

import hmac
import math
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm.errors import FeatureRefused, LocalProtocolError, RemoteProtocolError
from culm.negentropy import ArrayStorage, Negentropy
from culm.ranges import Feature, Range, RangeSet, UnreadRanges
from culm.session import (
    Asked,
    Connection,
    Ended,
    Established,
    Interests,
    InterestsTold,
    Limits,
    Named,
    Offer,
    Offered,
    Reconcile,
    Refused,
    Settled,
    Transferred,
)
from culm.session.handshake import Transcript
from culm.session.interests import TheirInterests
from culm.session.limits import LEAST_MESSAGE
from culm.session.messages import (
    Challenge,
    Discovery,
    Proof,
    Welcome,
    encode,
    encode_discovery,
    framed,
)
from culm.session.states import CONTROL, DISCOVERY, Phase, Round
from culm.wire.bymux import CLOSE, STOP_READ, WRITE, packet
from tests.session.pairs import ALICE, BOB, CALLER_NONCE, EVE, LISTENER_NONCE, Pair, opened

if TYPE_CHECKING:
    from collections.abc import Callable

    from culm.session.interests import Key

ALL = RangeSet([Range(1)])


def on_stream(number: int, data: bytes) -> bytes:
    """Bytes as they are written to a stream."""
    return packet(WRITE, number, len(data)) + data


# -- the handshake ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("piece", [1, 7, 10**6])
def test_they_prove_themselves(piece: int) -> None:
    """Both know the other's key at the end, however the bytes are cut."""
    pair = Pair()
    pair.carry(piece)
    assert [Established(BOB.public)] == pair.alice_saw
    assert [Established(ALICE.public)] == pair.bob_saw


def test_what_is_proved() -> None:
    """The signature and the MACs are those that the page on sessions defines."""
    transcript = Transcript(BOB.public, LISTENER_NONCE, ALICE.public, CALLER_NONCE)
    both = BOB.public + LISTENER_NONCE + ALICE.public + CALLER_NONCE
    assert ALICE.sign(b"culm session 1: caller\0" + both) == transcript.sign(ALICE)
    expected = hmac.digest(b"Quagga", b"culm session 1: clump of the caller\0" + both, "sha256")
    assert expected == transcript.caller_mac(b"Quagga")
    expected = hmac.digest(b"Quagga", b"culm session 1: clump of the listener\0" + both, "sha256")
    assert expected == transcript.listener_mac(b"Quagga")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"clumps": (b"Quagga", b"Zebra")}, "another clump"),
        ({"listener": EVE.public}, "does not hold the key"),  # what was signed for Eve is worth nothing to Bob
    ],
)
def test_strangers(settings: dict[str, Any], message: str) -> None:
    """A stranger is not told anything: all that it gets is the nonce that everybody gets."""
    pair = Pair(**settings)
    greeting = pair.bob.data_to_send()
    assert greeting == on_stream(0, encode(Challenge(LISTENER_NONCE)))
    assert len(greeting) == 41
    list(pair.alice.receive_data(greeting, 0.0))
    with pytest.raises(RemoteProtocolError, match=message):
        list(pair.bob.receive_data(pair.alice.data_to_send(), 0.0))
    assert pair.bob.data_to_send() == b""
    assert not pair.bob.is_open


@pytest.mark.parametrize("clump", [b"Quagga", b"Zebra"])
@pytest.mark.parametrize(
    ("seconds", "told", "bytes_"), [(8.2, 9, b"\x10\x09"), (300, 300, b"\x11\x01\x2c"), (math.inf, 0, b"")]
)
def test_a_refused_caller(seconds: float, told: int, bytes_: bytes, clump: bytes) -> None:
    """A caller with a penalty gets its seconds as credit for streams, one that is not allowed gets nothing.

    Neither learns whether its clump is right.
    """
    pair = Pair(refuses=lambda _: seconds, clumps=(clump, b"Quagga"))
    list(pair.alice.receive_data(pair.bob.data_to_send(), 0.0))
    assert [Refused(seconds)] == list(pair.bob.receive_data(pair.alice.data_to_send(), 0.0))
    answer = pair.bob.data_to_send()
    assert bytes_ == answer
    assert [] == list(pair.alice.receive_data(answer, 0.0))
    assert (told, False, False) == (pair.alice.refused_for, pair.alice.is_open, pair.bob.is_open)
    with pytest.raises(RemoteProtocolError, match="refused"):
        list(pair.bob.receive_data(on_stream(0, encode(Challenge(CALLER_NONCE))), 0.0))


def test_replayed_proof() -> None:
    """A proof that was heard once opens nothing with another nonce."""
    pair = Pair()
    list(pair.alice.receive_data(pair.bob.data_to_send(), 0.0))
    proof = pair.alice.data_to_send()
    again = Connection(BOB, b"Quagga", b"m" * 32)
    with pytest.raises(RemoteProtocolError, match="does not hold the key"):
        list(again.receive_data(proof, 0.0))


def test_borrowed_key() -> None:
    """Who claims another's key is found out."""
    transcript = Transcript(BOB.public, LISTENER_NONCE, ALICE.public, CALLER_NONCE)
    forged = Proof(ALICE.public, CALLER_NONCE, transcript.sign(EVE), transcript.caller_mac(b"Quagga"), Limits())
    bob = Connection(BOB, b"Quagga", LISTENER_NONCE)
    with pytest.raises(RemoteProtocolError, match="does not hold the key"):
        list(bob.receive_data(on_stream(0, encode(forged)), 0.0))


def test_a_listener_of_another_clump() -> None:
    """The caller leaves a listener that cannot show that it knows the clump, though it let the caller in."""
    pair = Pair()
    list(pair.alice.receive_data(pair.bob.data_to_send(), 0.0))
    transcript = Transcript(BOB.public, LISTENER_NONCE, ALICE.public, CALLER_NONCE)
    welcome = encode(Welcome(transcript.listener_mac(b"Zebra"), Limits()))
    with pytest.raises(RemoteProtocolError, match="another clump"):
        list(pair.alice.receive_data(on_stream(0, welcome), 0.0))


@pytest.mark.parametrize("number", [1, 2])
def test_nothing_before_the_proof(number: int) -> None:
    """A stranger has no credit for discovery and transfer, and can send a small message only."""
    bob = Connection(BOB, b"Quagga", LISTENER_NONCE)
    with pytest.raises(RemoteProtocolError, match="credit"):
        list(bob.receive_data(on_stream(number, b"x"), 0.0))
    bob = Connection(BOB, b"Quagga", LISTENER_NONCE)
    with pytest.raises(RemoteProtocolError, match="accepted: 1 to 512"):
        list(bob.receive_data(on_stream(0, framed(bytes(513))), 0.0))


# -- what may be said ------------------------------------------------------------------------------------------------


def test_an_open_session_holds_nothing_back() -> None:
    """Credit comes back by itself unless the owner has said otherwise."""
    pair = opened()
    for number in range(150):
        pair.alice.offer([Offer(EVE.public, number, LARGE)])
        pair.carry()
    assert len(pair.bob_saw) == 150


def test_the_credit_of_an_open_session() -> None:
    """Once the caller has proved itself, it may write what the page says: credit of 245,760, 262,144 and 1,048,576."""
    pair = Pair()
    list(pair.alice.receive_data(pair.bob.data_to_send(), 0.0))
    list(pair.bob.receive_data(pair.alice.data_to_send(), 0.0))
    granted = bytes.fromhex("02 00 0003c000" + "02 01 00040000" + "02 02 00100000")
    assert granted in pair.bob.data_to_send()


def test_interests_and_offers() -> None:
    """What each wants and has comes to the other; later interests take the place of earlier ones."""
    pair = opened()
    wants = Interests({(): ALL, (EVE.public,): RangeSet(), (BOB.public, 3): RangeSet([Range(5, 9)])})
    pair.alice.tell_interests(wants)
    offers = [Offer(BOB.public, 3, RangeSet([Range(1, 7)]))]
    pair.bob.offer(offers)
    pair.bob.settle(1)
    pair.carry()
    assert [InterestsTold(reset=True, items=list(wants.items()))] == pair.bob_saw
    assert [Offered(offers), Settled(1)] == pair.alice_saw
    theirs = pair.bob.their_interests
    assert (theirs.wants((EVE.public, 1)), theirs.wants((BOB.public, 1))) == (False, True)
    assert RangeSet([Range(5, 9)]) == theirs.of((BOB.public, 3))
    assert not theirs.is_everything
    pair.alice.tell_interests(Interests({(): ALL}))
    pair.carry()
    assert pair.bob.their_interests.is_everything


def test_what_was_told_goes_with_the_connection() -> None:
    """A connection that is over keeps nothing of what the peer told, though something still refers to it."""
    pair = opened()
    pair.alice.tell_interests(Interests({(): ALL}))
    pair.carry()
    kept = pair.bob.their_interests
    assert len(kept) == 1
    pair.bob.close()
    assert len(kept) == 0


def test_many_interests() -> None:
    """Interests that do not fit into one message are told in several; more than the peer takes are not told."""
    pair = opened(limits=Limits(LEAST_MESSAGE, 300))
    wants = Interests({(number.to_bytes(32),): ALL for number in range(300)})
    pair.alice.tell_interests(wants)
    pair.carry()
    assert wants == pair.bob.their_interests
    assert len(pair.bob_saw) > 1
    with pytest.raises(LocalProtocolError, match="the peer accepts 300"):
        pair.alice.tell_interests(Interests({(number.to_bytes(32),): ALL for number in range(301)}))


def test_too_many_interests() -> None:
    """A peer that tells more than is taken is dropped."""
    pair = opened(limits=Limits(LEAST_MESSAGE, 10))
    pair.alice.their_limits = Limits(LEAST_MESSAGE, 1000)
    pair.alice.tell_interests(Interests({(number.to_bytes(32),): ALL for number in range(11)}))
    with pytest.raises(RemoteProtocolError, match="more than 10 interests"):
        pair.carry()


INTEREST = bytes.fromhex("83 03 01 81 83 5820") + b"a" * 32 + bytes.fromhex("07")
"""An INTERESTS that replaces all before, up to the ranges of its one interest: log 7 of author aa...a."""


def told_ranges(ranges: str) -> bytes:
    """The bytes in which a peer tells that interest, with its length in front; ``ranges`` in hex, below 24 bytes."""
    data = bytes.fromhex(ranges)
    message = INTEREST + bytes([0x40 + len(data)]) + data
    return on_stream(0, bytes([len(message)]) + message)


USES = {
    "open": "01 0001",
    "sparse": "01 a0010d",
    "no-metadata": "01 98010a",
    "no-payloads": "01 87010a",
    "sizes": "01 82010a0100",
    "forbidden": "01 81010a020307",
    "certificate-limits": "01 88080a040d",
}
"""Sets of one range that uses one feature."""


@pytest.mark.parametrize(
    ("feature", "ranges"),
    [
        *USES.items(),
        ("open", "01 2001"),
        ("sparse", "01 2001"),
        ("no-metadata", "02 80010a f80c"),  # a payload, behind a plain range
        ("no-payloads", "02 e70c ffff"),  # what is behind it is not read, though it is wrong
    ],
)
def test_a_refused_feature(feature: str, ranges: str) -> None:
    """An interest with a feature that is not accepted ends the session, says which one, and is not kept."""
    pair = opened(refused_features={Feature(feature)})
    with pytest.raises(FeatureRefused, match=f"range feature {feature}, .* take {feature} out of refuse_ranges"):
        list(pair.bob.receive_data(told_ranges(ranges), 0.0))
    assert {} == pair.bob.their_interests


@pytest.mark.parametrize(("feature", "ranges"), USES.items())
def test_features_are_refused_one_by_one(feature: str, ranges: str) -> None:
    """A node that refuses all features but one takes ranges that use that one."""
    pair = opened(refused_features=frozenset(Feature) - {Feature(feature)})
    (told,) = pair.bob.receive_data(told_ranges(ranges), 0.0)
    assert isinstance(told, InterestsTold)
    assert UnreadRanges(bytes.fromhex(ranges)) == pair.bob.their_interests.of((b"a" * 32, 7))


@pytest.mark.parametrize("ranges", ["00", "01 ff", "02 e005 80060a", "01 8001ffffffffffffffffff"])
def test_closed_dense_ranges_are_always_accepted(ranges: str) -> None:
    """Nothing, one entry, and dense ranges with two ends use no feature that could be refused."""
    pair = opened(refused_features=frozenset(Feature))
    list(pair.bob.receive_data(told_ranges(ranges), 0.0))
    assert ranges.replace(" ", "") == pair.bob.their_interests.of((b"a" * 32, 7)).encode().hex()


@pytest.mark.parametrize("ranges", ["01", "01 8001", "01 c005", "02 e005"])
def test_a_malformed_interest_where_features_are_refused(ranges: str) -> None:
    """It is an offence, unlike the use of a feature."""
    pair = opened(refused_features={Feature.OPEN})
    with pytest.raises(RemoteProtocolError, match="breaks the format") as caught:
        list(pair.bob.receive_data(told_ranges(ranges), 0.0))
    assert not isinstance(caught.value, FeatureRefused)


@pytest.mark.slow
def test_interests_of_many_bytes() -> None:
    """A peer's interests are bounded in bytes, too; who has more to tell tells them more coarsely."""
    wide = UnreadRanges(RangeSet([Range(3 * number + 1, 3 * number + 1) for number in range(1000)]).encode())
    pair = opened()
    with pytest.raises(RemoteProtocolError, match="interests of more than"):
        for first in range(0, 2000, 20):
            items: list[tuple[Key, RangeSet]] = [((EVE.public, first + number), wide) for number in range(20)]
            list(pair.bob.receive_data(on_stream(0, encode(InterestsTold(reset=False, items=items))), 0.0))
    pair = opened()
    pair.alice.tell_interests(Interests({(EVE.public, number): wide for number in range(2000)}))
    pair.carry()
    assert len(pair.bob.their_interests) == 2000
    assert pair.bob.their_interests.of((EVE.public, 7)) == RangeSet([Range(1, 2998)])
    replaced = opened()
    for _ in range(100):  # said anew they take the place of those before
        told = InterestsTold(reset=False, items=[((EVE.public, 1), wide)] * 20)
        list(replaced.bob.receive_data(on_stream(0, encode(told)), 0.0))
    assert len(replaced.bob.their_interests) == 1


def test_interests_up_to_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Interests may take exactly the bytes that are kept, also after others were told before, and not one more."""
    told = [((bytes([number]) * 32,), RangeSet([Range(number + 1)])) for number in range(5)]
    size = sum(len(ranges.encode()) for _, ranges in told)
    monkeypatch.setattr("culm.session.interests.INTEREST_BYTES", size)
    TheirInterests(10).take(told, reset=False)  # the first that a peer tells need not say that they replace others
    theirs = TheirInterests(10)
    for _ in range(3):
        theirs.take(told, reset=True)
        theirs.take(told[:2], reset=False)  # known already: they take the place of the same
    monkeypatch.setattr("culm.session.interests.INTEREST_BYTES", size - 1)
    with pytest.raises(RemoteProtocolError, match=f"more than {size - 1} bytes"):
        theirs.take(told, reset=True)


LARGE = UnreadRanges(RangeSet([Range(3 * number + 1, 3 * number + 1) for number in range(10_000)]).encode())


def at_once(side: Connection) -> int:
    """How many bytes of offers a side may send before it hears anything of the peer."""
    side.offer([Offer(EVE.public, number, LARGE) for number in range(150)])
    return len(side.data_to_send())


@pytest.mark.parametrize("holds", [False, True])
def test_credit_does_not_grow(holds: bool) -> None:
    """However much was said, held back and dealt with, the peer may go on, and send as much at once as before."""
    pair, fresh = opened(), at_once(opened().alice)
    for number in range(200):
        pair.bob.hold(holds=holds)
        pair.alice.offer([Offer(EVE.public, number, LARGE)])
        pair.carry()
        pair.bob.hold(holds=False)
        pair.carry()
    assert fresh // 2 <= at_once(pair.alice) <= fresh + 1024  # The credit for the first words came back, too.


def test_who_is_held_back_gets_no_credit() -> None:
    """Until it is let go on, and then at once."""
    pair = opened()
    pair.bob.hold(holds=True)
    pair.alice.offer([Offer(EVE.public, number, LARGE) for number in range(150)])
    pair.carry()
    assert pair.alice.offers_queued > 0
    pair.bob.hold(holds=False)
    assert pair.bob.data_to_send() != b""


def test_how_many_are_asked_for_at_once() -> None:
    """A thousand heads, or as many as leave a message of the least size room for what stands around them."""
    assert opened().alice.most_asked == 1000
    assert opened(limits=Limits(LEAST_MESSAGE, 10)).alice.most_asked == (LEAST_MESSAGE - 64) // 32 == 126


def test_one_word_at_a_time() -> None:
    """In a discovery nobody speaks twice in a row, and its end is a message of its own."""
    pair = opened()
    pair.alice.reconcile(b"x")
    attempts: list[Callable[[], None]] = [
        lambda: pair.alice.reconcile(b"y"),
        lambda: pair.alice.ask([bytes(32)]),
        pair.alice.end_round,
    ]
    for says in attempts:
        with pytest.raises(LocalProtocolError, match="cannot be sent while the discovery is"):
            says()
    comparing, _ = comparing_many()
    comparing.alice.end_round()
    ended = encode_discovery(Discovery.END)
    assert ended in comparing.alice.data_to_send()
    with pytest.raises(RemoteProtocolError, match="bytes behind the message"):
        list(comparing.bob.receive_data(on_stream(1, encode_discovery(Discovery.END, b"x")), 0.0))


@pytest.mark.slow
def test_a_peer_that_is_to_wait() -> None:
    """Who is held has no more credit than the window; when it may go on, all comes, in order."""
    pair = opened()
    offers = [Offer(EVE.public, number, ALL) for number in range(20_000)]
    pair.bob.hold(holds=True)
    pair.alice.offer(offers)
    pair.carry()
    assert sum(len(event.offers) for event in pair.bob_saw if isinstance(event, Offered)) < 10_000
    assert pair.alice.offers_queued > 0
    pair.bob.hold(holds=False)
    pair.carry()
    assert offers == [offer for event in pair.bob_saw if isinstance(event, Offered) for offer in event.offers]


def test_transfer() -> None:
    """Bytes of the transfer stream go through as they are, as far as there is credit."""
    pair = opened()
    pair.alice.transfer(bytes(3_000_000))
    pair.carry()
    first = sum(len(event.data) for event in pair.bob_saw if isinstance(event, Transferred))
    assert first == 1024 * 1024
    assert 3_000_000 - first == pair.alice.transfer_queued
    pair.bob.consumed(first)
    pair.carry()
    assert 2 * first == sum(len(event.data) for event in pair.bob_saw if isinstance(event, Transferred))


def storage(heads: list[bytes]) -> ArrayStorage:
    """A sealed set of heads."""
    return ArrayStorage.of((0, head) for head in heads)


@given(st.sets(st.integers(0, 40), max_size=30), st.sets(st.integers(0, 40), max_size=30))
def test_a_discovery(ours: set[int], theirs: set[int]) -> None:
    """The caller finds out what differs, names what only it has and asks for the names of the rest; twice."""
    pair = opened()
    names = {number.to_bytes(32): Offer(number.to_bytes(32), number, ALL) for number in range(50)}
    for number in (1, 2):
        caller = Negentropy(storage([value.to_bytes(32) for value in sorted(ours)]))
        listener = Negentropy(storage([value.to_bytes(32) for value in sorted(theirs)]))
        pair.alice.reconcile(caller.initiate())
        pair.carry()
        while True:
            event = pair.bob_saw.pop()
            assert isinstance(event, Reconcile)
            pair.bob.reconcile(listener.reconcile(event.message) or b"")
            pair.carry()
            event = pair.alice_saw.pop()
            assert isinstance(event, Reconcile)
            message = caller.reconcile(event.message)
            if message is None:
                break
            pair.alice.reconcile(message)
            pair.carry()
        assert ours - theirs == {int.from_bytes(head) for head in caller.have}
        pair.alice.name([names[head] for head in caller.have])
        if caller.need:
            pair.alice.ask(caller.need)
            pair.carry()
            event = pair.bob_saw.pop()
            assert isinstance(event, Asked)
            pair.bob.name([names[head] for head in event.heads])
            pair.carry()
            assert [Named([names[head] for head in caller.need])] == pair.alice_saw
            pair.alice_saw.clear()
        pair.alice.end_round()
        pair.carry()
        assert Ended(number) == pair.bob_saw.pop()
        pair.bob.end_round()
        pair.carry()
        assert Ended(number) == pair.alice_saw.pop()
        assert (False, False) == (pair.alice.is_comparing, pair.bob.is_comparing)
        pair.bob_saw.clear()


def comparing_many() -> tuple[Pair, list[Offer]]:
    """A comparison in which the caller has the word, and more offers than fit into a message."""
    pair = opened(limits=Limits(LEAST_MESSAGE, 10))
    pair.alice.reconcile(b"x")
    pair.carry()
    pair.bob.reconcile(b"y")
    pair.carry()
    return pair, [Offer(number.to_bytes(32), 1, ALL) for number in range(200)]


def test_names_that_do_not_fit() -> None:
    """The listener answers with as many names as fit; the others come as offers."""
    pair, offers = comparing_many()
    pair.alice.ask([bytes(32)])
    pair.carry()
    pair.bob.name(offers)
    pair.carry()
    got = [event for event in pair.alice_saw if isinstance(event, Named | Offered)]
    assert len(got) == 3
    assert sorted(offers) == sorted(offer for event in got for offer in event.offers)


# -- the tables ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["820501", "820480", "83030180", "8300015820" + "00" * 32])
def test_too_early(text: str) -> None:
    """What belongs to an open session, or to the other side, is refused of a stranger."""
    bob = Connection(BOB, b"Quagga", LISTENER_NONCE)
    with pytest.raises(RemoteProtocolError, match="came while the session was unproved"):
        list(bob.receive_data(on_stream(0, framed(bytes.fromhex(text))), 0.0))


@pytest.mark.parametrize("kind", list(Discovery))
def test_the_listener_does_not_begin(kind: Discovery) -> None:
    """Whatever a listener says on the discovery stream before the caller began is refused, and not said by ours."""
    pair = opened()
    with pytest.raises(RemoteProtocolError, match="came while the discovery was idle"):
        list(pair.alice.receive_data(on_stream(1, encode_discovery(kind, bytes(32))), 0.0))
    says: dict[Discovery, Callable[[], None]] = {
        Discovery.RECONCILE: lambda: pair.bob.reconcile(b"x"),
        Discovery.ASK: lambda: pair.bob.ask([bytes(32)]),
        Discovery.NAMES: lambda: pair.bob.name([]),
        Discovery.END: pair.bob.end_round,
    }
    with pytest.raises(LocalProtocolError, match=r"can begin a discovery|while the discovery is idle"):
        says[kind]()
    assert pair.bob.rounds == 0


def test_nothing_before_it_is_open() -> None:
    """Nothing can be told, offered or transferred before both have proved themselves."""
    pair = Pair()
    attempts: list[Callable[[], None]] = [
        lambda: pair.bob.tell_interests(Interests()),
        lambda: pair.bob.offer([]),
        lambda: pair.alice.settle(1),
        lambda: pair.alice.transfer(b"x"),
        lambda: pair.alice.reconcile(b"x"),
    ]
    for says in attempts:
        with pytest.raises(LocalProtocolError, match="not open"):
            says()


def test_tables_are_closed() -> None:
    """Every state that a table leads to is one it leads out of. Out of a refusal nothing leads."""
    assert set(Phase) - {Phase.REFUSED} == {phase for phase, _ in CONTROL}
    assert set(Round) == {state for state, _ in DISCOVERY} == set(DISCOVERY.values())


def test_ended_streams() -> None:
    """A peer that ends a stream of the session ends the session."""
    pair = opened()
    with pytest.raises(RemoteProtocolError, match="ended a stream"):
        list(pair.alice.receive_data(packet(CLOSE, 2), 0.0))


@pytest.mark.parametrize("kind", [CLOSE, STOP_READ])
def test_a_stream_that_ends_with_what_is_to_be_answered(kind: int) -> None:
    """A question, and the end of the stream that it would be answered on, end the session as the end alone does."""
    pair = Pair()
    with pytest.raises(RemoteProtocolError, match="ended a stream"):
        list(pair.alice.receive_data(pair.bob.data_to_send() + packet(kind, 0), 0.0))


@given(st.lists(st.tuples(st.integers(0, 2), st.binary(min_size=1, max_size=40)), max_size=6))
def test_any_bytes(writes: list[tuple[int, bytes]]) -> None:
    """Whatever an admitted peer sends, the outcome is events or a refusal."""
    pair = opened()
    try:
        for number, data in writes:
            list(pair.bob.receive_data(on_stream(number, data), 0.0))
    except RemoteProtocolError:
        pass


def test_a_caller_names_in_several_messages() -> None:
    """The caller names of its own accord, so what does not fit in one message goes in a second one, not as offers."""
    pair, offers = comparing_many()
    pair.bob_saw.clear()
    pair.alice.name(offers)
    pair.carry()
    assert {Named} == {type(event) for event in pair.bob_saw}
    assert len(pair.bob_saw) >= 2
    assert offers == [offer for event in pair.bob_saw if isinstance(event, Named) for offer in event.offers]
