"""A chat for two or more people.

Shows: a home, listening, keeping contact with a peer, appending, subscribing.

Every message is an entry of its author's log: nobody can change it later or invent one, whoever passes it on. Run it in
two terminals (or more), and type:

    python examples/chat.py alice
    python examples/chat.py bob culm://KEY@127.0.0.1:PORT      with the address that alice's chat shows

Each person's messages and identity are kept in the folder chat-NAME. Ctrl-D ends the chat.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from culm import CulmError, Node

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from culm import Subscription

CHAT = 1  # the log of each person that has the messages


async def show(node: Node, news: Subscription) -> None:
    """Print what others say, for as long as the chat lasts; at first what they said before."""
    async for entry in news:
        if entry.log_id == CHAT and entry.author != node.author:
            text = (await node.payload(entry)).decode(errors="replace")
            print("".join(character if character.isprintable() else "?" for character in text), flush=True)


async def typed() -> str:
    """The next line that somebody types; empty at the end of the input."""
    return await asyncio.to_thread(sys.stdin.readline)


async def chat(name: str, peer: str | None, read: Callable[[], Awaitable[str]] = typed) -> None:
    """Say what is typed, show what others say."""
    async with Node.open(f"chat-{name}", clump="chat example") as node:
        address = await node.listen("culm://127.0.0.1:0")
        print(f"others join with: python examples/chat.py NAME {address}", flush=True)
        if peer is not None:
            await node.connect(peer)
        news = node.subscribe(since="0", with_payload=True)
        showing = asyncio.create_task(show(node, news))
        while line := await read():
            await node.append(CHAT, f"{name}: {line.strip()}")
        news.close()
        await showing


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    try:
        asyncio.run(chat(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None))
    except CulmError as error:
        sys.exit(f"error: {error}")
