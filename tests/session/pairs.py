"""Two sides of a session, without a network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from culm.bamboo import Identity
from culm.session import Connection, Limits

if TYPE_CHECKING:
    from culm.session import Event

ALICE, BOB, EVE = (Identity(bytes([number]) * 32) for number in (1, 2, 3))
CALLER_NONCE, LISTENER_NONCE = b"c" * 32, b"l" * 32


class Pair:
    """Alice calls Bob. ``alice_saw`` and ``bob_saw`` are the events of each."""

    def __init__(self, **settings: Any) -> None:
        clumps = settings.get("clumps", (b"Quagga", b"Quagga"))
        limits = settings.get("limits", Limits())
        self.alice = Connection(
            settings.get("caller", ALICE),
            clumps[0],
            CALLER_NONCE,
            listener=settings.get("listener", BOB.public),
            limits=limits,
        )
        self.bob = Connection(
            BOB,
            clumps[1],
            LISTENER_NONCE,
            refuses=settings.get("refuses", lambda _: 0.0),
            limits=limits,
            refused_features=settings.get("refused_features", ()),
        )
        self.alice_saw: list[Event] = []
        self.bob_saw: list[Event] = []
        self.carried = 0

    def carry(self, piece: int = 10**9) -> None:
        """Carry bytes both ways, in pieces of a size, until both are silent."""
        while True:
            sent = [side.data_to_send() for side in (self.bob, self.alice)]
            if not any(sent):
                return
            self.carried += sum(map(len, sent))
            for data, side, saw in zip(sent, (self.alice, self.bob), (self.alice_saw, self.bob_saw), strict=True):
                for at in range(0, len(data), piece):
                    saw.extend(side.receive_data(data[at : at + piece], 0.0))


def opened(**settings: Any) -> Pair:
    """A pair that has shaken hands, its events forgotten."""
    pair = Pair(**settings)
    pair.carry()
    assert pair.alice.is_open
    assert pair.bob.is_open
    pair.alice_saw.clear()
    pair.bob_saw.clear()
    return pair
