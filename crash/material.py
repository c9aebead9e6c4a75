"""What the scenes work with: logs of every kind there is, files of them, homes, and stores of earlier versions."""

from __future__ import annotations

import random
import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from culm.bamboo import Entry, Identity
from culm.node.home import DEFAULT_IDENTITY, Home
from culm.store import SQLiteStore, opening, schema
from culm.store.files import BundleWriter
from culm.store.payloads.folder import Folder
from culm.testing import LogBuilder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from culm.store.database import Database

READINGS = 1000  # entries of the longest log
_LARGE = (2_500_000, 90_000, 1_300_000, 300, 1_048_577, 1_048_576, 70_000)  # both sides of every limit


@dataclass(frozen=True)
class Material:
    """Logs, and where they lie.

    ``readings``: many small entries. ``letters``: payloads of some thousand bytes. ``films``: large payloads.
    ``forked`` holds two branches. ``bundle`` is a file with all of these, the second half of ``readings`` before the
    first, so that entries wait for their path.
    """

    folder: Path
    readings: LogBuilder
    letters: LogBuilder
    films: LogBuilder
    forked: LogBuilder
    branch: Entry

    @property
    def bundle(self) -> Path:
        """The file with all logs."""
        return self.folder / "all.bundle"

    @property
    def source(self) -> Path:
        """A home with all logs."""
        return self.folder / "source"

    def old_store(self, version: int) -> Path:
        """A store of that version, with all logs."""
        return self.folder / f"version-{version}.db"

    def entries(self) -> Iterator[Entry]:
        """Every entry there is."""
        for log in (self.readings, self.letters, self.films, self.forked):
            yield from log.entries
        yield self.branch

    def payload(self, entry: Entry) -> bytes:
        """The payload of an entry."""
        logs = (self.readings, self.letters, self.films, self.forked)
        return next(log.payloads[entry.hash] for log in logs if entry.hash in log.payloads)


def make(folder: Path, seed: int, readings_count: int = READINGS) -> Material:
    """Make everything in a folder that is there and empty."""
    rng = random.Random(seed)
    readings, letters, films, forked = (
        LogBuilder(Identity(rng.randbytes(32)), log_id) for log_id in (0, 1, 2**64 - 1, 7)
    )
    for _ in range(readings_count):
        readings.append(rng.randbytes(rng.randrange(200)))
    for _ in range(150):
        letters.append(rng.randbytes(rng.randrange(2000, 6000)))
    for size in _LARGE:
        films.append(rng.randbytes(size))
    for _ in range(40):
        forked.append(rng.randbytes(30))
    branch = forked.make(31, b"another")
    made = Material(folder, readings, letters, films, forked, branch)
    home = Home.find(made.source)
    new_home(home, Identity(rng.randbytes(32)))
    with home.store() as store:
        for log in (readings, letters, films, forked):
            store.add(log.items())
        store.add([(branch, b"another")])
        _write_bundle(made, store)
    for version in range(1, schema.VERSION):
        _write_old_store(home.store_path, made.old_store(version), version)
    return made


def new_home(home: Home, identity: Identity) -> None:
    """A home with an identity that is known."""
    home.create()
    home.add_identity(DEFAULT_IDENTITY, identity, None)


def copy_home(source: Path, target: Path) -> None:
    """A home like another that nobody uses."""
    shutil.copytree(source, target)


def _write_bundle(made: Material, store: SQLiteStore) -> None:
    half = len(made.readings.entries) // 2
    with made.bundle.open("wb") as stream:
        writer = BundleWriter(stream)
        for part in (made.letters.entries, made.readings.entries[half:], made.readings.entries[:half]):
            _write_entries(writer, made, part)
        for proof in store.fork_proofs():
            writer.proof(proof)
        _write_entries(writer, made, [*made.forked.entries, made.branch, *made.films.entries])
        writer.close()


def _write_entries(writer: BundleWriter, made: Material, entries: list[Entry]) -> None:
    for entry in entries:
        writer.entry(entry)
        if entry.size:
            writer.payload(entry.place, entry.size, [made.payload(entry)])


def _write_old_store(source: Path, target: Path, version: int) -> None:
    """A store as Culm made them once: the first version's tables filled, the steps up to ``version`` taken."""
    folder = Folder(source)
    with closing(sqlite3.connect(target, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(schema.SCRIPTS[0])
        connection.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
        connection.execute("ATTACH ? AS new", (str(source),))
        connection.execute("BEGIN")
        database = cast(
            "Database",
            SimpleNamespace(
                connection=connection,
                folder=Folder(target),
                read=lambda query, values=(), *_: connection.execute(query, values).fetchall(),
            ),
        )
        connection.execute(
            "INSERT INTO main.logs SELECT id, author, log_id, newest, greatest, contiguous, ended_at, forked_at,"
            " invalid_from, change FROM new.logs"
        )
        for table in ("entries", "payloads", "forks"):
            connection.execute(f"INSERT INTO main.{table} SELECT * FROM new.{table}")
        connection.execute("UPDATE main.counters SET value = (SELECT value FROM new.counters WHERE name = 'change')")
        for entry, name in connection.execute("SELECT entry, name FROM new.payload_files").fetchall():
            at = 0
            while piece := folder.read(name, at, 64 * 1024):
                connection.execute("INSERT INTO main.payloads VALUES (?, ?, ?)", (entry, at, piece))
                at += len(piece)
        for step in opening.MIGRATIONS[: version - 1]:
            step(database)
        connection.execute(f"PRAGMA main.user_version = {version}")
        connection.execute("COMMIT")
