"""A forum: threads and answers of many members, as tables.

Shows: a view without a node, threads of references, entries that come late, forks, the same rows for everybody.

    python examples/forum.py              5,000 messages, in a folder that is deleted at the end
    python examples/forum.py 100000       as many as a busy forum has in a year: some minutes

The members write to logs of their own. Then a reader brings them together in another order, with one member's log
missing. It comes at the end: messages that answer it wait until then, and the tables are the same as if everything had
come in time. At last a member tells two stories, and what stood on them is taken back.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from culm import Identity, Store
from culm.store import Draft
from culm.views import Rejected, View, ViewFile

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

    from culm import Entry

FORUM = 1  # the log of each member that has what they write
MEMBERS = 10
ROUND = 50  # messages that each member writes before they read each other again

SCHEMA = """
CREATE TABLE messages (
    id BLOB PRIMARY KEY, thread BLOB NOT NULL, parent BLOB, author BLOB NOT NULL, text TEXT NOT NULL
);
CREATE INDEX of_thread ON messages (thread);
CREATE TABLE threads (id BLOB PRIMARY KEY, title TEXT NOT NULL, answers INTEGER NOT NULL, members INTEGER NOT NULL);
CREATE INDEX by_answers ON threads (answers);
"""


def decode(_: Entry, payload: bytes) -> dict[str, str] | None:
    """A message: its text, and the message that it answers in hex, or none. Anything else is left out."""
    try:
        value = json.loads(payload)
        json.dumps(value, ensure_ascii=False).encode()  # JSON can have halves of characters, which are no text.
        if value.get("answers") is not None:
            bytes.fromhex(value["answers"])
    except (AttributeError, ValueError, TypeError, RecursionError):
        return None
    return value if isinstance(value.get("text"), str) else None


def references(value: dict[str, str]) -> Iterable[bytes]:
    """The message that is answered comes first, on every node."""
    return [bytes.fromhex(value["answers"])] if value.get("answers") else []


def apply(rows: sqlite3.Connection, entry: Entry, value: dict[str, str]) -> None:
    """Put a message into its thread, or begin one."""
    if not value.get("answers"):
        rows.execute("INSERT INTO threads VALUES (?, ?, 0, 1)", (entry.hash, value["text"]))
        thread, parent = entry.hash, None
    else:
        parent = bytes.fromhex(value["answers"])
        found = rows.execute("SELECT thread FROM messages WHERE id = ?", (parent,)).fetchone()
        if found is None:
            raise Rejected("it answers an entry that is no message")
        (thread,) = found
        said = rows.execute("SELECT 1 FROM messages WHERE thread = ? AND author = ?", (thread, entry.author))
        count = "UPDATE threads SET answers = answers + 1, members = members + ? WHERE id = ?"
        rows.execute(count, (said.fetchone() is None, thread))
    rows.execute(
        "INSERT INTO messages VALUES (?, ?, ?, ?, ?)", (entry.hash, thread, parent, entry.author, value["text"])
    )


FORUM_VIEW = View(SCHEMA, apply, decode=decode, references=references)


def message(text: str, answers: Entry | None = None) -> bytes:
    """The payload of a message."""
    return json.dumps({"text": text, "answers": answers.hash.hex() if answers else None}).encode()


def write(store: Store, members: list[Identity], count: int, rng: random.Random) -> None:
    """Have the members write ``count`` messages, most of them answers to messages of an earlier round."""
    written: list[Entry] = []
    while left := count - len(written):
        writing = members[: -(-left // ROUND)]  # The last round needs fewer members, or fewer messages.
        drafts = []
        for at, member in enumerate(writing):
            about = [
                rng.choice(written) if written and rng.random() < 0.95 else None
                for _ in range(min(ROUND, left - at * ROUND))
            ]
            drafts.append(Draft(member, FORUM, [message(f"words {rng.randrange(10**9)}", each) for each in about]))
        for made in store.append_each(drafts):
            if isinstance(made, Exception):
                raise made
            written += made


def bring(target: Store, source: Store, author: bytes) -> None:
    """Copy a member's log."""
    found = source.entries((author, FORUM))
    target.add([(stored.entry, b"".join(source.payload(stored))) for stored in found])


def main(folder: Path, count: int) -> None:
    """Write a forum, read it in another order, and see a member tell two stories."""
    rng = random.Random(1)
    members = [Identity.create() for _ in range(MEMBERS)]
    late, *others = rng.sample([member.public for member in members], MEMBERS)
    with Store(folder / "written.db") as written, Store(folder / "read.db") as read:
        write(written, members, count, rng)
        with ViewFile(folder / "written-view.db", FORUM_VIEW, written) as view:
            began = time.perf_counter()
            view.update()
            print(f"{count / (time.perf_counter() - began):,.0f} messages a second")
            expected = view.dump()
        with ViewFile(folder / "read-view.db", FORUM_VIEW, read) as view:
            for author in others:
                bring(read, written, author)
            print(f"one member's log is missing: {view.update().waiting:,} messages wait")
            bring(read, written, late)
            waiting = view.update().waiting
            print(f"it has come: {waiting} wait, and the tables are the same: {view.dump() == expected}")
            tell_two_stories(folder, read, members[0])
            changes, rows = view.update(), view.dump()
            stay = len(rows["messages"])
            print(f"two stories: {changes.removed:,} messages are gone, {stay:,} stay, {changes.waiting:,} wait")
            view.rebuild()
            print(f"made anew, the tables are the same: {view.dump() == rows}")


def tell_two_stories(folder: Path, read: Store, member: Identity) -> None:
    """Let a member write another first message, and show it to somebody who has the log."""
    with Store(folder / "other.db") as other:
        other.append(member, FORUM, [message("I have never said that")])
        bring(read, other, member.public)


if __name__ == "__main__":
    if len(sys.argv) > 2 or not all(word.isdecimal() for word in sys.argv[1:]):
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(temporary), int(sys.argv[1]) if len(sys.argv) > 1 else 5000)
