"""Items that the native core takes in steps of many entries mean what they mean message by message."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from culm import native
from culm.bamboo import encode_varu64
from culm.errors import ProtocolError
from culm.proposals import EVERYTHING, Eagerness
from culm.proposals.data import Switch, push_data
from culm.proposals.messages import Wish
from culm.testing.builders import LogBuilder
from culm.transfer import EntriesReceived, EntryReceived, apart
from tests.changed import changed
from tests.proposals.examples import IDENTITY
from tests.proposals.victim import Victim, offer, pay
from tests.quick import rounds

if TYPE_CHECKING:
    from culm.proposals import Proposal

pytestmark = pytest.mark.skipif(native.core is None, reason="the native core is not built (make native)")
CORE: Any = native.core
LOG = LogBuilder(IDENTITY)
for _number in range(120):
    LOG.append(f"payload {_number:012}".encode())
for _size in (0, 300, 0):
    LOG.append(bytes(_size))
LAST = len(LOG.entries)


def head(seq: int) -> bytes:
    """The metadata of an entry without its backlink: 80, the size, the hash of the payload, the signature."""
    entry = LOG.entries[seq - 1]
    return b"\x80" + encode_varu64(entry.size) + entry.encoded[-130:]


def sent() -> bytes:
    """All entries with their payloads as a peer sends them; in front the switch to proposal 0."""
    return b"\x00\x00" + b"".join(head(seq) + pay(seq, LOG) for seq in range(1, LAST + 1))


def outcome(
    proposal: Proposal,
    wish: Eagerness,
    held: tuple[int, ...],
    data: bytes,
    cuts: list[int],
    *,
    together: bool = False,
) -> Any:
    """The events, one for each item; the fault; what is said and sent in answer; where the peer's items are."""
    victim = Victim(*held, log=LOG, together=together).control(proposal).confirms(wish)
    fault = ""
    try:
        for low, high in zip([0, *cuts], [*cuts, len(data)], strict=True):
            victim.data(data[low:high])
    except ProtocolError as error:
        fault = str(error)
    said = victim.connection.control_to_send(), victim.connection.data_to_send()
    living = victim.connection.exchanges.values()
    places = [(one.incoming.index, one.incoming.offset, list(one.incoming.passed), one.said) for one in living]
    return apart(victim.events), fault, said, places


ALL = EVERYTHING
CASES = {
    "the whole log": (offer(1, LAST), ALL, (), sent()),
    "for ever": (offer(1, None), ALL, (), sent()),
    "a part, so that there are items too many": (offer(1, 60), ALL, (), sent()),
    "some are held": (offer(1, LAST), ALL, (1, 2, 50, 51), sent()),
    "payloads of some sizes": (offer(1, None, greatest=100), ALL, (), sent()),
    "an end in the middle of what is wanted": (offer(1, LAST), Eagerness(Wish.LIMITED, 25), (), sent()),
}


@pytest.mark.parametrize("case", CASES)
def test_the_same_with_the_core_and_without(monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    """However items are cut, whichever bytes are wrong: events, fault, answers and place agree."""
    proposal, wish, held, data = CASES[case]
    rng = random.Random(case)
    for _ in rounds(15, 2):
        bad = changed(rng, data)
        cuts = sorted(rng.sample(range(len(bad)), rng.choice((0, 0, 1, 5))))
        with_core = outcome(proposal, wish, held, bad, cuts)
        assert outcome(proposal, wish, held, bad, cuts, together=True) == with_core
        with monkeypatch.context() as patch:
            patch.setattr(native, "core", None)
            assert outcome(proposal, wish, held, bad, cuts) == with_core


def test_entries_come_together_where_that_is_asked_for() -> None:
    """All entries with their payloads are one event to an owner that takes many at once."""
    victim = Victim(log=LOG, together=True).control(offer(1, LAST)).confirms(ALL).data(sent())
    (together,) = (event for event in victim.events if isinstance(event, EntriesReceived))

    assert [(entry, LOG.payloads[entry.hash]) for entry in LOG.entries] == together.items
    assert not any(isinstance(event, EntryReceived) for event in victim.events)


class Counting:
    """The core, and how many bytes it was handed each time."""

    def __init__(self) -> None:
        self.calls: list[int] = []

    def entries_linked(self, data: memoryview, *rest: Any) -> object:
        """As the core's."""
        self.calls.append(len(data))
        return CORE.entries_linked(data, *rest)

    def __getattr__(self, name: str) -> object:
        return getattr(CORE, name)


def test_entries_are_taken_in_steps_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """The core is asked once for entries that are all as they should be; seldom where it can take none of them.

    It would copy all the rest for each, if it were asked again and again.
    """
    longer = b"\x00\x00" + b"".join(  # sizes of payloads in a form that is longer than needed
        head(seq) + b"\x08\xf9" + len(payload).to_bytes(2, "big") + payload
        for seq in range(1, 121)
        if (payload := LOG.payloads[LOG.entries[seq - 1].hash])
    )
    for data, count, most in ((sent(), LAST, 1), (longer, 120, 5)):
        monkeypatch.setattr(native, "core", counting := Counting())
        events = outcome(offer(1, LAST), ALL, (), data, [])[0]
        assert count == sum(isinstance(event, EntryReceived) for event in events)
        assert len(counting.calls) <= most


def test_a_message_between_entries_stops_a_step_only_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind a marker of another proposal, some entries come alone, and then the others in a step of many again."""
    monkeypatch.setattr(native, "core", Counting())
    between = push_data(Switch(0)) * 2  # Of the proposal that is current, so that it changes nothing.
    victim = Victim(log=LOG, together=True).control(offer(1, LAST)).confirms(ALL)
    victim.data(sent()[:2] + between + sent()[2:])
    assert max(len(event.items) for event in victim.events if isinstance(event, EntriesReceived)) > 100
