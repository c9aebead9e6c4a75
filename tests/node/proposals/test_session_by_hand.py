"""What a proposal session makes of a peer's bytes, with bytes that no encoder of ours has made.

Specification: docs/specs/proposals.md, "Greedy sending", "Session", "Cancellations".
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from culm.errors import RemoteProtocolError
from culm.node.proposals.options import ProposalOptions
from tests.node.links import run, stream_pair
from tests.node.peers import Rogue, key, until
from tests.proposals import byhand as hand
from tests.proposals.examples import LOG

if TYPE_CHECKING:
    from collections.abc import Callable

    from culm.node.proposals.session import ProposalSession
    from tests.node.proposing import ProposalPeer

APOLOGY = bytes.fromhex("10")
BAD_M1 = hand.M1[:-1] + b"\x01"
ITEMS = hand.M2 + hand.P2 + hand.M3 + hand.P3


async def against(
    peer: ProposalPeer, talk: Callable[[Rogue, ProposalSession], Any], *, greedy: bool = False, **settings: Any
) -> ProposalSession:
    """A session that asks for the example log, against a peer that says what ``talk`` writes."""
    near, far = await stream_pair()
    options = settings.pop("options", ProposalOptions(greedy=greedy))
    session = peer.session(near, [key(LOG)], called=True, options=options, **settings)
    rogue = Rogue(far)
    task = asyncio.create_task(session.run())
    rogue.send((hand.GREEDY if greedy else hand.SAFE) + hand.GRANTS)
    await until(lambda: bool(session.connection.endpoint.exchanges))
    try:
        await talk(rogue, session)
        rogue.writer.close()
        await task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    return session


@pytest.mark.parametrize("apart", [False, True], ids=["at once", "apart"])
@pytest.mark.parametrize(
    "parts",
    [
        (hand.M1, bytes.fromhex("0805") + b"wrong", APOLOGY, hand.P1, ITEMS),
        (hand.M1, bytes.fromhex("0802") + b"wr", bytes.fromhex("0803") + b"ong", APOLOGY, hand.P1, ITEMS),
        (hand.M1, bytes.fromhex("0814") + b"wrong wrong wrong wr", APOLOGY, hand.P1, ITEMS),
        (BAD_M1, APOLOGY, hand.M1, hand.P1, ITEMS),
        (hand.M1, hand.P1, hand.M2, bytes.fromhex("0801") + b"T", APOLOGY, hand.P2, hand.M3, hand.P3),
    ],
    ids=["a beginning", "two pieces", "a whole payload", "metadata", "another entry"],
)
def test_an_apology_takes_back_nothing_else(peers: list[ProposalPeer], parts: tuple[bytes, ...], apart: bool) -> None:
    """What a greedy peer takes back counts as never sent: the right item behind it is kept, and nobody is blamed."""
    alice, *_ = peers

    async def talk(rogue: Rogue, _: ProposalSession) -> None:
        rogue.send(hand.control(hand.CONFIRMED))
        for part in parts if apart else [b"".join(parts)]:
            rogue.send(hand.data(hand.SWITCH, part))
            await asyncio.sleep(0)
        await until(lambda: alice.numbers(key(LOG)) == [1, 2, 3])

    session = run(lambda: against(alice, talk, greedy=True))
    assert session.stats.refused == []


def test_items_in_front_of_a_fault_are_stored(peers: list[ProposalPeer]) -> None:
    """S9: entries that were complete are kept, although the same write breaks the rules of the control channel."""
    alice, *_ = peers

    async def talk(rogue: Rogue, session: ProposalSession) -> None:
        rogue.send(hand.control(hand.CONFIRMED))
        await until(lambda: session.connection.endpoint.exchanges[0].may_send)
        rogue.send(hand.data(hand.SWITCH, hand.M1, hand.P1, hand.M2, hand.P2) + hand.control(b"\x88"))
        await until(lambda: alice.numbers(key(LOG)) == [1, 2])

    with pytest.raises(RemoteProtocolError, match="no message begins with 88"):
        run(lambda: against(alice, talk))
