"""A forum of 100,000 messages as a view: made at once, then message by message, then a late one that repeats many."""

from __future__ import annotations

import json
import random
import sqlite3
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from bench.harness import Figure, say, seconds
from culm.bamboo import Entry, Identity
from culm.store import SQLiteStore
from culm.testing import LogBuilder
from culm.views import View, ViewFile

if TYPE_CHECKING:
    from collections.abc import Iterable

MESSAGES = 100_000
AUTHORS = 20
LIVE = 200  # messages that come one by one
GOAL = 100_000 / 60  # messages a second
SCHEMA = """
CREATE TABLE messages (id BLOB PRIMARY KEY, parent BLOB, author BLOB, text TEXT, answers INTEGER DEFAULT 0);
CREATE INDEX by_parent ON messages (parent);
"""


def _references(value: dict[str, str]) -> Iterable[bytes]:
    return [bytes.fromhex(value["parent"])] if value["parent"] else []


def _apply(rows: sqlite3.Connection, entry: Entry, value: dict[str, str]) -> None:
    parent = bytes.fromhex(value["parent"])
    rows.execute("INSERT INTO messages VALUES (?, ?, ?, ?, 0)", (entry.hash, parent, entry.author, value["text"]))
    rows.execute("UPDATE messages SET answers = answers + 1 WHERE id = ?", (parent,))


def _write(rng: random.Random, logs: list[LogBuilder], written: list[Entry]) -> None:
    parent = rng.choice(written).hash.hex() if written and rng.random() < 0.9 else ""
    text = json.dumps({"parent": parent, "text": f"message {len(written)} " + "." * rng.randrange(200)})
    written.append(rng.choice(logs).append(text.encode()))


def run() -> list[Figure]:
    """Measure."""
    say(f"a view of {MESSAGES:,} messages by {AUTHORS} authors")
    rng, view = random.Random(1), View(SCHEMA, _apply, references=_references)
    logs = [LogBuilder(Identity(bytes([number]) * 32)) for number in range(1, AUTHORS + 1)]
    written: list[Entry] = []
    for _ in range(MESSAGES):
        _write(rng, logs, written)
    with tempfile.TemporaryDirectory() as name, SQLiteStore(Path(name) / "store.db") as store:
        for log in logs:
            store.add(log.items(), authenticated=True)
        with ViewFile(Path(name) / "view.db", view, store) as file:
            at_once = seconds(file.update)
            live = 0.0
            for _ in range(LIVE):
                _write(rng, logs, written)
                author = next(log for log in logs if log.entries and log.entries[-1] is written[-1])
                store.add(author.items()[-1:], authenticated=True)
                live += seconds(file.update)
            late = LogBuilder(Identity(bytes(32)))
            _write(rng, [late], written)
            store.add(late.items(), authenticated=True)
            repeated = 0

            def repeat() -> None:
                nonlocal repeated
                repeated = file.update().repeated

            taken = seconds(repeat)
    return [
        Figure("a view made at once", MESSAGES / at_once, "entries/s", "", None, GOAL),
        Figure("a message that comes: until the view has it", live / LIVE * 1000, "ms"),
        Figure(f"a late message that repeats {repeated:,}", repeated / taken, "entries/s", "", None, GOAL),
    ]
