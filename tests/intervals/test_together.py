"""Responses that the native core takes in steps of many entries mean what they mean item by item."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from culm import native
from culm.errors import ProtocolError
from culm.intervals import (
    At,
    Connection,
    EntriesReceived,
    EntryReceived,
    FromGreatest,
    FromLeast,
    PayloadReceived,
    Regular,
)
from culm.testing.builders import build_log
from tests.changed import changed
from tests.intervals.pair import Side
from tests.memory import MemoryStore
from tests.nativecalls import accepted_in_batches
from tests.quick import rounds

if TYPE_CHECKING:
    from culm.intervals import Event, Interval

pytestmark = pytest.mark.skipif(native.core is None, reason="the native core is not built (make native)")
LOG = build_log(130, payload_size=20)
for _size in (0, 1, 3000, 0):
    LOG.append(bytes(_size))
INTERVALS: list[Interval] = [
    Regular(At(1, 0), FromGreatest(0)),
    Regular(At(1, 0), At(134, 9)),
    Regular(At(60, 0), At(100, 0)),
    Regular(At(60), At(100)),
    Regular(At(100), At(60)),
    Regular(FromLeast(30), FromGreatest(3)),
    Regular(At(133), At(134)),
]


def asked(interval: Interval, *, together: bool, **options: int | bool) -> Connection:
    """A connection with one request."""
    connection = Connection(MemoryStore(), together=together)
    list(connection.receive_data(b"\xb0\x05", 0.0))  # credit for five requests
    connection.request(LOG.identity.public, 0, interval, **options)  # type: ignore[arg-type]
    return connection


def response(interval: Interval, **options: int | bool) -> bytes:
    """All that a peer with the log says when it is asked."""
    side = Side()
    side.put_log(LOG, range(1, 135), range(1, 135))
    side.take(asked(interval, together=False, **options).data_to_send())
    side.connection.respond(1 << 20)
    return side.connection.data_to_send()


def outcome(
    connection: Connection, data: bytes, cuts: list[int]
) -> tuple[list[Event], str, int, list[tuple[str, int, int]]]:
    """The events, one for each item; the fault; how many bytes of credit are left; how far the response is."""
    events: list[Event] = []
    fault = ""
    try:
        for low, high in zip([0, *cuts], [*cuts, len(data)], strict=True):
            for event in connection.receive_data(data[low:high], 0.0):
                events += event.apart() if isinstance(event, EntriesReceived) else [event]
    except ProtocolError as error:
        fault = str(error)
    places = [(str(ours.state), ours.index, ours.offset) for ours in connection.ours.requests.values()]
    return events, fault, connection.ours.window, places


@pytest.mark.parametrize("options", [{}, {"verified": False}, {"least_size": 5}, {"greatest_size": 100}])
@pytest.mark.parametrize("interval", INTERVALS, ids=str)
def test_the_same_with_the_core_and_without(
    monkeypatch: pytest.MonkeyPatch, interval: Interval, options: dict[str, int | bool]
) -> None:
    """Whatever a response is, however it is cut, whichever bytes of it are wrong: events, fault and place agree."""
    rng, data = random.Random(str(interval)), response(interval, **options)
    for _ in rounds(12, 2):
        bad, cuts = changed(rng, data), sorted(rng.sample(range(len(data)), rng.choice((0, 0, 1, 5))))
        cuts = [cut for cut in cuts if cut < len(bad)]
        ways = []
        for core, together in ((native.core, True), (native.core, False), (None, True)):
            monkeypatch.setattr(native, "core", core)
            ways.append(outcome(asked(interval, together=together, **options), bad, cuts))
            monkeypatch.undo()
        assert ways[0] == ways[1] == ways[2]


def test_entries_come_together_where_that_is_asked_for() -> None:
    """A whole response is one event to an owner that takes many at once, and an event for each item to others."""
    interval = INTERVALS[0]
    data = response(interval)
    (together,) = (
        event for event in asked(interval, together=True).receive_data(data, 0.0) if isinstance(event, EntriesReceived)
    )
    apart = list(asked(interval, together=False).receive_data(data, 0.0))

    assert [(entry, LOG.payloads[entry.hash]) for entry in LOG.entries] == together.items
    assert sum(len(entry.encoded) + entry.size for entry in LOG.entries) == together.size
    assert 134 == sum(isinstance(event, EntryReceived) for event in apart)
    assert 134 == sum(isinstance(event, PayloadReceived) for event in apart)


def test_what_stops_the_core_again_and_again_is_looked_at_once() -> None:
    """Entries whose sizes are written in a longer form cost about what they cost without the core.

    The core takes none of them. It would copy all the rest for each, if it were asked again and again.
    """
    calls: list[int] = []
    core = native.core
    assert core is not None

    class Counting:
        def entries_linked(self, data: memoryview, *rest: object) -> object:
            calls.append(len(data))
            return core.entries_linked(data, *rest)  # type: ignore[arg-type, union-attr]

        def __getattr__(self, name: str) -> object:
            return getattr(core, name)

    interval = INTERVALS[0]
    data = response(interval)
    tail = LOG.entries[0].encoded[-130:]
    at = data.index(tail) - 2
    body = b"".join(
        b"\x00\xf9\x00" + bytes([entry.size]) + entry.encoded[-130:] + LOG.payloads[entry.hash]
        for entry in LOG.entries[:130]
    )
    head = data[:at].partition(b"\x80")[0]
    message = head + b"\x80\xf9" + len(body).to_bytes(2, "big") + body
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "core", Counting())
        found = outcome(asked(interval, together=True), message, [])
    assert 130 == sum(isinstance(event, EntryReceived) for event in found[0])
    assert 1 == len(calls)


def test_behind_a_bad_signature_each_is_checked_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """A response that goes on behind a bad signature has its later entries checked by libsodium, one by one."""
    interval = INTERVALS[0]
    data = response(interval, verified=False)
    third, middle = LOG.entries[2].encoded[-64:], data.index(LOG.entries[79].encoded[-64:])
    connection = asked(interval, together=True, verified=False)
    calls = accepted_in_batches(monkeypatch)

    list(connection.receive_data(data[:middle].replace(third, bytes(64)), 0.0))
    before = len(calls)
    list(connection.receive_data(data[middle:], 0.0))

    assert 0 < before == len(calls)
