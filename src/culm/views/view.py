"""What an application says of its view: tables, how payloads are read, and what an entry does to the rows."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from culm.bamboo import Entry
from culm.types import Log


class Rejected(Exception):
    """Raised by ``View.apply``: the entry has no effect, and what it had done to the rows is undone.

    For example it completes an item that does not exist. It must depend on the entry and the rows alone.
    """


def decode_with(read: Callable[[bytes], Any], *errors: type[Exception]) -> Callable[[Entry, bytes], Any]:
    """Payloads as a library reads them: ``View(decode=decode_with(cbor2.loads, cbor2.CBORDecodeError))``.

    An entry is left out if ``read`` raises ``ValueError``, ``RecursionError`` or one of ``errors``: its author can
    write anything, and any other exception would end each update of the view.
    """
    refusals: tuple[type[Exception], ...] = (ValueError, RecursionError, *errors)

    def decode(_: Entry, payload: bytes) -> Any:  # noqa: ANN401 - any value
        try:
            return read(payload)
        except refusals:
            return None

    return decode


decode_json = decode_with(json.loads)
"""The payload as JSON; None, so that the entry is left out, if it is no JSON."""
decode_text = decode_with(bytes.decode)
"""The payload as text; None, so that the entry is left out, if it is no UTF-8."""


def no_references(_: Any) -> Iterable[bytes]:  # noqa: ANN401 - any value
    """No entry says that others come before it."""
    return ()


def every_log(_: Log) -> bool:
    """The view is made of all logs."""
    return True


@dataclass(frozen=True, slots=True)
class View:
    """How entries become rows.

    ``schema``: the SQL that makes the tables, indexes and views. Tables need a rowid, and no AUTOINCREMENT, because its
    counter cannot be taken back. ``version``: count it up when ``apply`` or ``decode`` changes; the file is then made
    anew.

    ``apply(rows, entry, value)`` changes the tables through ``rows``, which is in a transaction. It must depend on its
    arguments and the rows alone: no clock, no randomness, no other file. Otherwise two nodes with the same entries have
    different rows. ``Rejected`` says that the entry has no effect.

    ``decode(entry, payload)`` gives the value, or None to leave the entry out. ``references(value)`` gives the hashes
    (66 bytes, ``Entry.hash``) of entries that come before this one: the message that it answers, the item that it
    changes. The entry, and all behind it in its log, wait until the view has them. ``wants(log)`` says which logs the
    view is made of; the file of a view that wants others is to have another ``version``.
    """

    schema: str
    apply: Callable[[sqlite3.Connection, Entry, Any], object]
    decode: Callable[[Entry, bytes], Any] = decode_json
    references: Callable[[Any], Iterable[bytes]] = no_references
    wants: Callable[[Log], bool] = every_log
    version: int = 1

    @property
    def digest(self) -> bytes:
        """What a file was made for: 16 bytes over the schema and the version."""
        return blake2b(f"{self.version}\n{self.schema}".encode(), digest_size=16).digest()


@dataclass(slots=True)
class Changes:
    """What an update did: entries ``applied``, those taken back and applied again (``repeated``), and ``rejected``.

    ``removed`` entries are no longer part of the view: a fork came to light, or their payload was deleted. ``waiting``
    counts the entries that wait for one that they refer to, after the update. ``rebuilt``: all rows were made anew.
    """

    applied: int = 0
    repeated: int = 0
    removed: int = 0
    waiting: int = 0
    rebuilt: bool = False
    rejected: list[tuple[Entry, str]] = field(default_factory=list)

    def __bool__(self) -> bool:
        """Whether the rows can have changed."""
        return bool(self.applied or self.repeated or self.removed or self.rebuilt)
