"""What makes a message invalid: the connection is over at once, and nothing of it reached the store.

The rules are those of docs/specs/intervals.md, "What is refused", "One branch in a response",
"Ids and the active request".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from culm.bamboo import MAX_U64, is_authentic
from culm.errors import LocalProtocolError, RemoteProtocolError
from culm.intervals import At, Forks, FromGreatest, Interval, Limits, MetadataOnly, Reason, Regular, Request, Single
from culm.intervals.codec import push_message
from culm.intervals.items import encode_item
from culm.intervals.messages import (
    Activate,
    Adjust,
    Cancel,
    Eager,
    End,
    Lazy,
    Message,
    ProofEntry,
    RequestCredit,
    ResponseCredit,
)
from culm.testing.builders import LogBuilder, build_log
from tests.intervals.examples import MALFORMED, expand
from tests.intervals.pair import Side

if TYPE_CHECKING:
    from collections.abc import Callable

    from culm.bamboo import Entry

AUTHOR = bytes(32)
LOG = 0
OPEN = Regular(At(1, 0), FromGreatest(0))


@cache
def log() -> LogBuilder:
    """Five entries with payloads of 20 bytes."""
    return build_log(5, payload_size=20)


@cache
def branch() -> Entry:
    """Another entry 3."""
    return log().make(3, b"another")


@dataclass
class Victim:
    """The endpoint under test, and the bytes that its peer sends."""

    side: Side = field(default_factory=Side)
    sent: bytes = b""

    def asks(self, interval: Interval = OPEN, **options: Any) -> Victim:
        """It asks for something of the log."""
        if not self.side.connection.ours.credit:
            self.side.take(push_message(RequestCredit(50)))
        self.side.connection.request(log().identity.public, LOG, interval, **options)
        return self

    def gets(self, *messages: Message | bytes) -> Victim:
        """What its peer sends."""
        for message in messages:
            self.sent += message if isinstance(message, bytes) else push_message(message)
        return self


def item(seq: int, *, omit: bool = True) -> bytes:
    """The bytes of an item whose links are all left out, or none."""
    return encode_item(log().entries[seq - 1], lambda _: omit)


def eager(data: bytes) -> bytes:
    """A message with item data."""
    return push_message(Eager(len(data))) + data


def payload(seq: int) -> bytes:
    """A payload of the log."""
    return log().payloads[log().entries[seq - 1].hash]


def proof(*entries: Entry) -> tuple[ProofEntry, ...]:
    """Entries as they travel in a proof."""
    return tuple(map(ProofEntry.of, entries))


def their_request(number: int = 0, interval: Interval = OPEN, **options: Any) -> Request:
    """A request of the peer."""
    return Request(number, AUTHOR, LOG, interval, **options)


def entries(*numbers: int) -> list[Entry]:
    """Entries of the log."""
    return [log().entries[seq - 1] for seq in numbers]


def forged(seq: int) -> bytes:
    """An item whose signature is wrong."""
    data = bytearray(item(seq))
    data[-1] ^= 1
    return bytes(data)


@cache
def stranger() -> LogBuilder:
    """A log of another author."""
    return build_log(5, seed=9)


def _with_anchor(position: int) -> Victim:
    return Victim().asks(forks=Forks.LOCAL, anchor=(position, log().entries[0].hash))


RULES: dict[str, Callable[[], Victim]] = {
    # Requests.
    "a request without credit": lambda: Victim(Side(limits=_no_requests())).gets(their_request()),
    "two hashes for one number": lambda: Victim().gets(
        their_request(interval=Regular(At(4, 0, own=bytes(66)), At(4, 0, own=b"\x00" * 65 + b"\x01")))
    ),
    # Item data.
    "data while no request is active": lambda: Victim().gets(Eager(0)),
    "data without credit": lambda: Victim().asks().gets(Eager(2**40)),
    "data of a lazy response": lambda: Victim().asks(lazy=True).gets(eager(item(1))),
    "data after the end": lambda: Victim().asks(Single(1, 0, 0)).gets(eager(item(1) + payload(1) + b"x")),
    "more data after a response that ended": lambda: (
        Victim().asks(Single(1, 0, 0)).gets(eager(item(1) + payload(1)), Eager(0))
    ),
    "data after the switch": lambda: _switched().gets(eager(item(1) + payload(1) + item(2))),
    "an item that cannot be parsed": lambda: Victim().asks().gets(eager(b"\x02" + item(1)[1:])),
    "a hash of an unknown function": lambda: Victim().asks().gets(eager(item(1)[:2] + b"\x01" + item(1)[3:])),
    "a bad signature": lambda: Victim().asks().gets(eager(forged(1))),
    "an item of another author": lambda: (
        Victim().asks().gets(eager(encode_item(stranger().entries[0], lambda _: True)))
    ),
    "a payload of a size that was not asked for": lambda: (
        Victim().asks(greatest_size=5).gets(eager(item(1) + payload(1)))
    ),
    "two links of one response that contradict each other": lambda: (
        Victim().asks(Regular(At(5, 0), At(2, 0))).gets(eager(_contradiction()))
    ),
    # Announcements and confirmations.
    "an announcement while no request is active": lambda: Victim().gets(Lazy(0, 0)),
    "items beyond the end": lambda: Victim().asks(Single(1, 0, 0), lazy=True).gets(Lazy(3, 0, log().entries[0].hash)),
    "items beyond the switch": lambda: _switched(lazy=True).gets(Lazy(3, 0, log().entries[1].hash)),
    "bytes of a payload where metadata comes next": lambda: Victim().asks(lazy=True).gets(Lazy(0, 5)),
    "more bytes of a payload than it has": lambda: (
        Victim().asks(lazy=False).gets(eager(item(1)), Lazy(0, 21, log().entries[0].hash))
    ),
    "a confirmation of what was never sent": lambda: Victim().asks().gets(Lazy(1, 0, log().entries[0].hash)),
    # Ends.
    "an end while no request is active": lambda: Victim().gets(End(Reason.OTHER)),
    "an end after a response that ended": lambda: (
        Victim().asks(Single(1, 0, 0)).gets(eager(item(1) + payload(1)), End(Reason.CANCELLED))
    ),
    "a proof of entries that agree": lambda: Victim().asks().gets(End(Reason.FULL_PROOF, proof(*entries(2, 3)))),
    "a proof with a bad signature": lambda: Victim().asks().gets(End(Reason.FULL_PROOF, _bad_proof())),
    "a proof before its position, with local forks": lambda: (
        Victim().asks(forks=Forks.LOCAL).gets(End(Reason.FULL_PROOF, proof(*entries(3), branch())))
    ),
    "a proof at the anchor": lambda: _with_anchor(3).gets(
        eager(item(1) + payload(1) + item(2) + payload(2)), End(Reason.FULL_PROOF, proof(*entries(3), branch()))
    ),
    "a partial proof where no hash was expected": lambda: (
        Victim().asks().gets(End(Reason.PARTIAL_PROOF, proof(*entries(3))))
    ),
    "a partial proof that contradicts nothing": lambda: (
        Victim()
        .asks(MetadataOnly(3, ascending=False, dist=0, own=log().entries[2].hash))
        .gets(End(Reason.PARTIAL_PROOF, proof(*entries(3))))
    ),
    "a partial proof with a bad signature": lambda: (
        Victim()
        .asks(MetadataOnly(3, ascending=False, dist=0, own=branch().hash))
        .gets(End(Reason.PARTIAL_PROOF, _bad_proof()[:1]))
    ),
    "an end that activates what it ends": lambda: Victim().asks().gets(End(Reason.OTHER, activates=0)),
    "an end with more credit than there can be": lambda: (
        Victim().asks().gets(RequestCredit(MAX_U64 - 49), End(Reason.OTHER, grants=True))
    ),
    # Credit, ids.
    "too much request credit": lambda: Victim().gets(RequestCredit(MAX_U64), RequestCredit(1)),
    "too much response credit": lambda: Victim().gets(ResponseCredit(MAX_U64), ResponseCredit(1)),
    "a cancellation of what never was": lambda: Victim().gets(Cancel(7)),
    "an id below zero": lambda: Victim().asks().gets(Activate(-1)),
    "an id beyond 64 bits": lambda: Victim().asks().gets(Activate(MAX_U64), Activate(MAX_U64)),
    "an active request that is not open": lambda: Victim().asks().gets(Activate(1)),
    # Adjustments.
    "an adjustment without credit": lambda: Victim(Side(limits=_one_request())).gets(their_request(), Adjust(0, 1)),
    "an adjustment of what never was": lambda: Victim().gets(their_request(), Adjust(3, 4)),
    "an adjustment to the same id": lambda: Victim().gets(their_request(), b"\xf0\x00\x00"),
    "an adjustment to a place that is not in the response": lambda: Victim().gets(
        their_request(interval=Single(4, 0, 0)), Adjust(0, 1, 3)
    ),
    "a response to what is to follow another request": lambda: _deferred().gets(Activate(1)),
    # Bytes.
    "a message that there is not": lambda: Victim().gets(b"\x81"),
    "a hash of another length": lambda: Victim().asks().gets(b"\xa4\x00\x04\x00\x20" + bytes(64)),
}


def _no_requests() -> Limits:
    return Limits(requests=0)


def _one_request() -> Limits:
    return Limits(requests=1)


def _contradiction() -> bytes:
    """Entries 5, 4, 3 downwards, where 3 is not the one that 4 links to."""
    found = b""
    for seq in (5, 4):
        found += item(seq, omit=False) + payload(seq)
    return found + encode_item(branch(), lambda _: False)


def _bad_proof() -> tuple[ProofEntry, ...]:
    first, second = proof(*entries(3), branch())
    broken = ProofEntry(
        first.is_end, first.seq, first.lipmaalink, first.backlink, first.size, first.payload_hash, bytes(64)
    )
    return broken, second


def _switched(*, lazy: bool = False) -> Victim:
    """A response that changes between lazy and eager at the metadata of entry 2."""
    victim = Victim().asks(lazy=lazy)
    new = victim.side.connection.ours.adjust(0, 2)
    # What was lazy stays so up to the position, and what was eager too.
    return victim.gets(End(Reason.CANCELLED), Activate(new))


def _deferred() -> Victim:
    victim = Victim().asks()
    victim.side.connection.ours.adjust(0)
    return victim


@pytest.mark.parametrize("name", RULES)
def test_rules(name: str) -> None:
    """A message that breaks a rule ends the connection, what it said reaches nobody, and nothing is taken after it.

    That is so where the message comes byte by byte, and where it comes at once.
    """
    breaks(name, size=1)
    breaks(name, size=1000)


def breaks(name: str, size: int) -> None:
    """Send what breaks a rule, in pieces of so many bytes."""
    victim = RULES[name]()
    side = victim.side
    with pytest.raises(RemoteProtocolError) as caught:
        for at in range(0, len(victim.sent), size):
            side.take(victim.sent[at : at + size])

    assert str(caught.value)
    assert all(
        entry.author == log().identity.public and is_authentic(entry)
        for variants in side.store.entries.values()
        for entry in variants
    )
    assert all(data in log().payloads.values() for data in side.store.bytes.values() if data)
    with pytest.raises(LocalProtocolError):
        side.take(b"\xb0\x00")


@pytest.mark.parametrize("text", MALFORMED)
def test_malformed_messages_end_the_connection(text: str) -> None:
    """A message that breaks the format ends the connection, too: nothing of it is taken."""
    victim = Victim().asks()
    with pytest.raises(RemoteProtocolError):
        victim.side.take(expand(text) + bytes(600))
    assert not victim.side.store.entries
    assert not victim.side.connection.theirs.requests


ALLOWED: dict[str, Callable[[], Victim]] = {
    "a grant of nothing": lambda: Victim().gets(RequestCredit(0), ResponseCredit(0)),
    "no data": lambda: Victim().asks().gets(Eager(0)),
    "an announcement of nothing": lambda: Victim().asks(lazy=True).gets(Lazy(0, 0)),
    "no change of the active request": lambda: Victim().asks().gets(Activate(0)),
    "a cancellation of what has ended": lambda: Victim().gets(
        their_request(interval=Single(4, 0, 0)), Cancel(0), Cancel(0)
    ),
    "a request in place of another": lambda: Victim().gets(their_request(), their_request()),
    "an end as if cancelled": lambda: Victim().asks().gets(End(Reason.CANCELLED)),
    "a proof in its place, with local forks": lambda: (
        Victim()
        .asks(forks=Forks.LOCAL)
        .gets(eager(item(1) + payload(1) + item(2) + payload(2)), End(Reason.FULL_PROOF, proof(*entries(3), branch())))
    ),
    "a partial proof": lambda: (
        Victim()
        .asks(MetadataOnly(3, ascending=False, dist=0, own=branch().hash))
        .gets(End(Reason.PARTIAL_PROOF, proof(*entries(3))))
    ),
    "a partial proof by a link": lambda: (
        Victim()
        .asks(MetadataOnly(3, ascending=False, dist=0, own=branch().hash))
        .gets(End(Reason.PARTIAL_PROOF, proof(*entries(4))))
    ),
    "min above max": lambda: Victim().gets(their_request(least_size=5, greatest_size=1)),
    "a bad signature where nothing was to be verified": lambda: Victim().asks(verified=False).gets(eager(forged(1))),
}


@pytest.mark.parametrize("name", ALLOWED)
def test_odd_but_allowed(name: str) -> None:
    """What is odd and breaks no rule does not end the connection."""
    victim = ALLOWED[name]()
    victim.side.take(victim.sent)
    victim.side.take(b"\xb0\x00")


def test_what_we_may_not_do() -> None:
    """Asking without credit, cancelling what is over, adjusting twice: refused before anything is sent."""
    side = Side()
    with pytest.raises(LocalProtocolError):
        side.connection.request(AUTHOR, LOG, OPEN)
    side.take(push_message(RequestCredit(2)))
    with pytest.raises(LocalProtocolError):
        side.connection.ours.cancel(0)
    request_id = side.connection.request(AUTHOR, LOG, OPEN)
    side.connection.ours.adjust(request_id)
    with pytest.raises(LocalProtocolError):
        side.connection.ours.cancel(request_id)
    with pytest.raises(LocalProtocolError):
        side.connection.ours.adjust(request_id)


@pytest.mark.parametrize(
    "make",
    [
        lambda: At(0),
        lambda: At(1, 256),
        lambda: At(1, 0, b"short"),
        lambda: FromGreatest(-1),
        lambda: Request(0, b"short", 0, OPEN),
        lambda: Request(0, AUTHOR, 0, OPEN, anchor=(1, bytes(66))),
        lambda: Request(0, AUTHOR, 0, MetadataOnly(1, ascending=True), payload_offset=0),
        lambda: Request(0, AUTHOR, 0, Regular(FromGreatest(0), At(1)), payload_offset=0),
    ],
)
def test_what_a_request_cannot_say(make: Callable[[], object]) -> None:
    """What a request cannot say is refused when it is made."""
    with pytest.raises(ValueError, match=r"."):
        make()
