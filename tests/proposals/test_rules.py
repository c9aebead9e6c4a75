"""Every rule whose breach ends the connection, and everything that must not end it.

Specification: docs/specs/proposals.md, "What is refused", "Adjustments", "Ids and credit", "Payloads", "Eagerness",
"Markers", "Compression", "Behaviour".
"""

# ruff: noqa: E501 - a rule a line

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

import pytest

from culm.bamboo import MAX_U64
from culm.errors import LocalProtocolError, RemoteProtocolError
from culm.proposals import (
    EVERYTHING,
    NOTHING,
    Adjust,
    Cancel,
    Code,
    Eagerness,
    Wish,
)
from culm.proposals.control import push_control
from culm.proposals.data import Apology, Compressed, Marker, Notify, Raw, Skip, SkipBytes, Switch, Why, push_data
from culm.proposals.messages import Grant
from tests.proposals.examples import H1, KEY, LOG, OTHER_2
from tests.proposals.victim import LONG, OTHER_LOG, Victim, bad_signature, meta, offer, pay, raw

if TYPE_CHECKING:
    from collections.abc import Callable

Case = tuple["Callable[[], Victim]", tuple[Any, ...], tuple[Any, ...]]


def data(*messages: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Messages of the data channel."""
    return (), messages


def control(*messages: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Messages of the control channel."""
    return messages, ()


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
def test_terminates(name: str) -> None:
    """The connection is over, the store is as it was, and nothing more is taken: at once, and byte by byte."""
    terminates(name, at_once=True)
    terminates(name, at_once=False)


def terminates(name: str, *, at_once: bool) -> None:
    """Send what breaks a rule, whole or in bytes."""
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
