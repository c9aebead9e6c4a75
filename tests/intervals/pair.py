"""Two endpoints joined by memory, for the tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from culm.intervals import (
    Connection,
    Ended,
    EntryReceived,
    Event,
    Limits,
    PayloadReceived,
    Request,
    RequestEnded,
)
from tests.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterable

    from culm.bamboo import Entry
    from culm.testing.builders import LogBuilder


class Side:
    """An endpoint with its store. What it receives, it stores."""

    def __init__(self, *, stateless: bool = False, limits: Limits | None = None, together: bool = False) -> None:
        self.store = MemoryStore()
        self.connection = Connection(self.store, stateless=stateless, limits=limits, together=together)
        self.events: list[Event] = []
        self.received = bytearray()
        self.items: list[tuple[str, int]] = []  # what came as data, in order: ("m", seq), ("p", seq)
        self._parts: dict[bytes, bytearray] = {}

    def take(self, data: bytes) -> None:
        """Receive bytes, store what they bring, and give credit again."""
        self.received += data
        for event in self.connection.receive_data(data, 0.0):
            self.notice(event)
        self.connection.refill()

    def notice(self, event: Event) -> None:
        """Keep an event and store what it brings."""
        self.events.append(event)
        if isinstance(event, EntryReceived):
            self.items.append(("m", event.entry.seq))
            self.put(event.entry)
        elif isinstance(event, PayloadReceived):
            part = self._parts.setdefault(event.entry.hash, bytearray(self._prefix(event)))
            if len(part) < event.offset:  # what is before was announced, and never came
                return
            del part[event.offset :]
            part += event.data
            if event.complete:
                self.items.append(("p", event.entry.seq))
                self.put(event.entry, bytes(self._parts.pop(event.entry.hash)))

    def _prefix(self, event: PayloadReceived) -> bytes:
        return self.store.bytes.get(event.entry.hash, b"")[: event.offset]

    def put(self, entry: Entry, payload: bytes | None = None) -> None:
        """Store an entry, and tell the connection."""
        self.store.put(entry, payload)
        self.connection.wake([entry.log])

    def put_log(self, log: LogBuilder, metadata: Iterable[int], payloads: Iterable[int]) -> None:
        """Store some of a log."""
        wanted = set(payloads)
        for seq in metadata:
            entry = log.entries[seq - 1]
            self.put(entry, log.payloads[entry.hash] if seq in wanted else None)

    def ended(self) -> list[Ended]:
        """How requests of ours ended."""
        return [event for event in self.events if isinstance(event, Ended)]

    def drain(self) -> list[Event]:
        """The events so far, except those about the peer's requests; they are forgotten."""
        events: list[Event] = [event for event in self.events if not isinstance(event, Request | RequestEnded)]
        self.events.clear()
        return events


class Pair:
    """``a`` and ``b``, connected."""

    def __init__(self, a: Side | None = None, b: Side | None = None) -> None:
        self.a, self.b = a or Side(), b or Side()
        self.settle()

    def settle(self) -> None:
        """Let both sides send until they have nothing more to say."""
        quiet = 0
        while quiet < 2:
            moved = False
            for sender, receiver in ((self.a, self.b), (self.b, self.a)):
                moved = self.step(sender, receiver) or moved
            quiet = 0 if moved else quiet + 1

    def step(self, sender: Side, receiver: Side) -> bool:
        """Move what one side has to say; whether it had anything."""
        sender.connection.respond(1 << 20)
        for event in sender.connection.take_events():
            sender.notice(event)
        data = sender.connection.data_to_send()
        if data:
            receiver.take(data)
        return bool(data)
