"""A view that is hard to keep right, and logs that make it work: messages with answers, edits and deletions."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING, Any

from culm.bamboo import Entry, Identity
from culm.testing import LogBuilder
from culm.views import Rejected, View

if TYPE_CHECKING:
    from collections.abc import Iterable

SCHEMA = """
CREATE TABLE messages (
    id TEXT PRIMARY KEY, author BLOB NOT NULL, text TEXT, score REAL NOT NULL DEFAULT 0,
    answers INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE "last ""words" (author BLOB PRIMARY KEY, text TEXT, raw BLOB);
CREATE TABLE journal (line TEXT);
CREATE INDEX by_author ON messages (author);
CREATE VIEW loud AS SELECT id FROM messages WHERE score > 1;
"""


def references(value: Any) -> Iterable[bytes]:
    """The messages that a message is about."""
    return [bytes.fromhex(each) for each in value.get("about", [])]


def apply(rows: sqlite3.Connection, entry: Entry, value: Any) -> None:
    """Insert, update, replace and delete, in all tables; some entries are rejected after they have done something."""
    rows.execute("INSERT INTO journal VALUES (?)", (f"{entry.seq} {value['text']}",))
    rows.execute(
        'INSERT OR REPLACE INTO "last ""words" VALUES (?, ?, ?)', (entry.author, value["text"], entry.signature[:9])
    )
    for about in value.get("about", []):
        rows.execute("UPDATE messages SET answers = answers + 1, score = score * 1.1 + 0.1 WHERE id = ?", (about,))
    if value["text"].endswith("7"):
        raise Rejected("unlucky")
    if value["text"].endswith("5"):
        rows.execute("DELETE FROM messages WHERE author = ?", (entry.author,))
    rows.execute(
        "INSERT INTO messages (id, author, text) VALUES (?, ?, ?)", (entry.hash.hex(), entry.author, value["text"])
    )


THREAD = View(SCHEMA, apply, references=references)


def payload(text: str, about: Iterable[Entry] = ()) -> bytes:
    """A message, and what it is about."""
    return json.dumps({"text": text, "about": [entry.hash.hex() for entry in about]}).encode()


def log_of(number: int) -> LogBuilder:
    """An empty log of one of some authors."""
    return LogBuilder(Identity(bytes([number]) * 32))
