"""A Bushbaby peer that a test drives by hand."""

from __future__ import annotations

from typing import Any

from culm.bushbaby import (
    BambooReceived,
    Connection,
    Dialect,
    HaveItem,
    HaveReceived,
    Options,
    WantItem,
    WantReceived,
)
from tests.node.links import Party


class Deployed:
    """A hand-driven peer that behaves like the deployed one: not marked, silent when it wants nothing."""

    def __init__(self, party: Party, streams: Any, dialect: Dialect = Dialect.DEPLOYED) -> None:
        self.reader, self.writer = streams
        numbers = iter(range(1, 10_000))
        self.connection = Connection(
            party.identity,
            b"Quagga",
            random_bytes=lambda size: next(numbers).to_bytes(size, "big"),
            options=Options(dialect, mark=False),
        )
        self.entries: list[tuple[int, bytes]] = []
        self.messages: list[int] = []
        self.haves: list[HaveItem] = []
        self.wants: list[WantItem] = []

    async def step(self) -> object:
        """Write what is due, then take what comes; the last event."""
        self.writer.write(self.connection.data_to_send())
        event: object = None
        for event in self.connection.receive_data(await self.reader.read(1 << 16), 0.0):
            if isinstance(event, BambooReceived):
                got = [(entry.seq, bytes(payload)) for entry, payload in event.entries]
                self.entries += got
                self.messages.append(len(got))
            elif isinstance(event, HaveReceived):
                self.haves += event.items
            elif isinstance(event, WantReceived):
                self.wants += event.items
        self.writer.write(self.connection.data_to_send())
        return event

    async def until(self, condition: Any) -> None:
        """Go on until something holds."""
        while not condition():
            await self.step()
