"""A to-do list that several people share.

Shows: a view over the logs of several authors, references, rejected entries.

Everybody writes to a log of their own, and all see one list. Nobody can change what somebody else has written, and it
does not matter in which order the entries arrive, or who was offline meanwhile: all lists are the same in the end. Run
it in two terminals (or more), and type "add milk", "done 1a2b3c" or "list":

    python examples/todo.py alice
    python examples/todo.py bob culm://KEY@127.0.0.1:PORT      with the address that alice's list shows

Ctrl-D ends it. The rows are in todo-NAME/todo.db. When the program has ended, this makes them anew, the same as before:

    culm --home todo-alice view rebuild examples/todo.py:TODO todo-alice/todo.db
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Any

from culm import CulmError, Node
from culm.views import LiveView, Rejected, View

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

    from culm import Entry
    from culm.types import Log

ITEMS = 1  # the log of each person that has what they did to the list
SHOWN = 6  # hex digits of an item's hash by which people name it

SCHEMA = """
CREATE TABLE items (id TEXT PRIMARY KEY, text TEXT NOT NULL, author BLOB NOT NULL, done_by BLOB);
CREATE INDEX open_items ON items (id) WHERE done_by IS NULL;
"""


def decode(_: Entry, payload: bytes) -> dict[str, str] | None:
    """What a person did; None for anything else, which leaves it out: others write these payloads, and can err."""
    try:
        value = json.loads(payload)
        json.dumps(value, ensure_ascii=False).encode()  # JSON can have halves of characters, which are no text.
    except (ValueError, RecursionError):
        return None
    match value:
        case {"do": "add", "text": str()} | {"do": "done", "item": str()}:
            return value  # type: ignore[no-any-return]  # the pattern has checked it
    return None


def references(value: dict[str, str]) -> Iterable[bytes]:
    """An item comes before what is done to it, on every node; until it does, that waits."""
    try:
        return [bytes.fromhex(value["item"])] if value["do"] == "done" else []
    except ValueError:
        return []  # ``apply`` rejects it: no item has this name.


def apply(rows: sqlite3.Connection, entry: Entry, value: dict[str, str]) -> None:
    """Change the list. The first to finish an item has done it, in the order that all nodes agree on."""
    if value["do"] == "add":
        rows.execute("INSERT INTO items VALUES (?, ?, ?, NULL)", (entry.hash.hex(), value["text"], entry.author))
        return
    found = rows.execute("UPDATE items SET done_by = ? WHERE id = ? AND done_by IS NULL", (entry.author, value["item"]))
    if not found.rowcount:
        raise Rejected("no such item, or somebody was quicker")


def is_list(log: Log) -> bool:
    """Only these logs matter; a person has others for other things."""
    return log[1] == ITEMS


TODO = View(SCHEMA, apply, decode=decode, references=references, wants=is_list)


async def add(node: Node, text: str) -> str:
    """Put something on the list; the item's id."""
    entry = await node.append(ITEMS, json.dumps({"do": "add", "text": text}))
    return entry.hash.hex()


async def finish(node: Node, item: str) -> None:
    """Say that an item is done."""
    await node.append(ITEMS, json.dumps({"do": "done", "item": item}))


async def open_items(todo: LiveView) -> list[tuple[Any, ...]]:
    """The ids and texts of what is to be done, in an order that is the same for everybody."""
    return await todo.read("SELECT id, text FROM items WHERE done_by IS NULL ORDER BY id")


async def show(todo: LiveView) -> None:
    """Print the list."""
    for item, text in await open_items(todo):
        print(item[4 : 4 + SHOWN], "".join(each if each.isprintable() else "?" for each in text), flush=True)


async def obey(node: Node, todo: LiveView, line: str) -> None:
    """Do what a line says."""
    word, _, rest = line.strip().partition(" ")
    if word == "add" and rest:
        await add(node, rest)
    elif word == "done":
        found = [item for item, _ in await open_items(todo) if rest and item[4:].startswith(rest)]
        if len(found) == 1:
            await finish(node, found[0])
        else:
            print("no open item, or more than one, begins like this", flush=True)
    elif word == "list":
        await todo.update()
        await show(todo)
    else:
        print("add TEXT, done ITEM, or list", flush=True)


async def main(name: str, peer: str | None) -> None:
    """Obey what is typed, and print the list whenever it changes."""
    node = Node.open(f"todo-{name}", clump="to-do example")
    async with node, LiveView(node, f"todo-{name}/todo.db", TODO) as todo:
        address = await node.listen("culm://127.0.0.1:0")
        print(f"others join with: python examples/todo.py NAME {address}", flush=True)
        if peer is not None:
            await node.connect(peer)

        async def follow() -> None:
            async for _ in todo:
                await show(todo)

        following = asyncio.create_task(follow())
        while line := await asyncio.to_thread(sys.stdin.readline):
            await obey(node, todo, line)
        await node.close()
        await following


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    try:
        asyncio.run(main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None))
    except CulmError as error:
        sys.exit(f"error: {error}")
