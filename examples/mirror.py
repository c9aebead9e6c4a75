"""A mirror: everything that a peer has, as files.

Shows: progress, live updates, subscribing with a cursor that is kept.

    culm serve --clump garden --listen culm://127.0.0.1:0            somewhere; it prints its address
    python examples/mirror.py FOLDER garden culm://KEY@127.0.0.1:PORT

Payloads become FOLDER/AUTHOR/LOG/NUMBER. It goes on until Ctrl-C, and where it was when it is started again.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from culm import CulmError, Entry, NetworkError, Node, author_text

if TYPE_CHECKING:
    from culm.node.sessions.stats import SessionStats


def report(stats: SessionStats) -> None:
    """Show how far the first exchange is."""
    print(f"\r{stats.entries_received} of {stats.missing} entries", end="", file=sys.stderr)


async def write(node: Node, entry: Entry, folder: Path) -> None:
    """Write one payload to its file, piece by piece: it may be larger than the memory."""
    path = folder / author_text(entry.author) / str(entry.log_id) / str(entry.seq)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".part")
    with unfinished.open("wb") as file:
        async for piece in node.payload_pieces(entry):
            file.write(piece)
    unfinished.replace(path)


async def mirror(folder: Path, clump: str, peer: str) -> None:
    """Mirror a peer until cancelled."""
    kept = folder / "cursor"
    async with Node.open(folder / "home", clump=clump) as node:
        with suppress(NetworkError):  # it may be away just now
            await node.sync(peer, progress=report)
        await node.connect(peer)
        news = node.subscribe(since=kept.read_text() if kept.exists() else "0", with_payload=True)
        async for entry in news:
            await write(node, entry, folder)
            kept.write_text(
                news.cursor or "0"
            )  # after the file: a crash in between writes it twice, and never loses it
            print(author_text(entry.author), entry.log_id, entry.seq, flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    try:
        asyncio.run(mirror(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
    except KeyboardInterrupt:
        pass
    except CulmError as error:
        sys.exit(f"error: {error}")
