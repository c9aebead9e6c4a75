"""A store's file that somebody else has prepared is refused by name before anything of it runs."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from hashlib import blake2b
from pathlib import Path

import pytest

from culm.cli import main
from culm.errors import StoreDamaged
from culm.spark.reading.inputs import plan
from culm.store import SQLiteStore
from culm.store.schema import SCRIPTS, VERSION
from culm.testing import build_log

LOG = build_log(5)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A store with a log of 5 entries."""
    with SQLiteStore(tmp_path / "store.db") as store:
        store.add(LOG.items())
    return tmp_path / "store.db"


def prepare(place: Path, *statements: str) -> None:
    """Do to a store what its owner would not."""
    with closing(sqlite3.connect(place)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


BELIEVES = "CREATE TRIGGER believes AFTER INSERT ON entries BEGIN UPDATE entries SET state = 2; END"
PREPARED = {
    "a trigger that believes everything": ((BELIEVES,), "the trigger 'believes' is in no store"),
    "a trigger that erases forks": (
        ("CREATE TRIGGER erases AFTER INSERT ON forks BEGIN DELETE FROM forks; END",),
        "the trigger 'erases' is in no store",
    ),
    "a view": (("CREATE VIEW seen AS SELECT * FROM entries",), "the view 'seen' is in no store"),
    "a view in place of a table": (
        ("ALTER TABLE forks RENAME TO hidden", "CREATE VIEW forks AS SELECT * FROM hidden WHERE 0"),
        "the table 'forks' is missing",
    ),
    "a table": (("CREATE TABLE notes (text)",), "the table 'notes' is in no store"),
    "an index": (("CREATE INDEX more ON entries (hash)",), "the index 'more' is in no store"),
    "a column": (("ALTER TABLE entries ADD COLUMN more INTEGER",), "the table 'entries' is not as in a store"),
    "a trigger of ours with another body": (
        (
            "DROP TRIGGER payload_lost",
            "CREATE TRIGGER payload_lost AFTER UPDATE OF payload_state ON entries BEGIN DELETE FROM forks; END",
        ),
        "the trigger 'payload_lost' is not as in a store",
    ),
    "no trigger where one belongs": (("DROP TRIGGER entry_changed",), "the trigger 'entry_changed' is missing"),
    "no index where one belongs": (("DROP INDEX logs_by_head",), "the index 'logs_by_head' is missing"),
    "a name that only SQLite may give": (
        (
            BELIEVES,
            "PRAGMA writable_schema = ON",
            (
                "UPDATE sqlite_schema SET name = 'sqlite_stat1', sql = replace(sql, 'believes', 'sqlite_stat1')"
                " WHERE name = 'believes'"
            ),
        ),
        "the trigger 'sqlite_stat1' is in no store",
    ),
}


@pytest.mark.parametrize(("statements", "said"), PREPARED.values(), ids=PREPARED)
@pytest.mark.parametrize("read_only", [True, False])
def test_prepared_stores_are_refused(place: Path, statements: tuple[str, ...], said: str, *, read_only: bool) -> None:
    """More, less or something else than a store's own tables: the message names it, and the file stays as it is."""
    prepare(place, *statements)
    before = place.read_bytes()
    with pytest.raises(StoreDamaged, match="take another copy") as error:
        SQLiteStore(place, read_only=read_only)
    assert str(error.value).startswith(f"{place}: ")
    assert said in str(error.value)
    assert before == place.read_bytes()


def test_what_spark_reads_is_compared_too(place: Path) -> None:
    """A prepared store is no input of a job."""
    prepare(place, BELIEVES)
    with pytest.raises(StoreDamaged, match="'believes'"):
        plan([place])


def test_statistics_of_sqlite_are_no_harm(place: Path) -> None:
    """``ANALYZE`` and ``VACUUM``, which people run on their databases, leave a store that opens."""
    prepare(place, "ANALYZE")
    with closing(sqlite3.connect(place)) as connection:
        connection.execute("VACUUM")
    with SQLiteStore(place) as store:
        assert len(list(store.logs())) == 1


@pytest.mark.parametrize("version", range(1, VERSION))
def test_an_older_store_is_compared_before_it_is_migrated(tmp_path: Path, version: int) -> None:
    """A trigger in a store of an earlier version is refused as well, and the store stays of that version."""
    place = tmp_path / "store.db"
    with closing(sqlite3.connect(place)) as connection:
        for script in SCRIPTS[:version]:
            connection.executescript(script)
        connection.execute(f"PRAGMA application_id = {0x43554C4D}")
        connection.execute(f"PRAGMA user_version = {version}")
    kept = place.read_bytes()
    with SQLiteStore(place):
        pass
    place.write_bytes(kept)
    prepare(place, BELIEVES)
    with pytest.raises(StoreDamaged, match="'believes'"):
        SQLiteStore(place)
    with closing(sqlite3.connect(place)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (version,)


def test_wording_of_comments_does_not_matter(place: Path) -> None:
    """The definitions of a store keep the comments of the Culm that made it; with other ones it is the same store."""
    prepare(
        place,
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_schema SET sql = replace(sql, '-- 0: verified entries', '/* said\n otherwise */ -- so')"
        " WHERE name = 'runs'",
    )
    with SQLiteStore(place) as store:
        assert len(list(store.logs())) == 1


def test_a_backup_with_a_prepared_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A backup that somebody made of a prepared store, with checksums that fit, is not restored, and leaves nothing."""
    home, copy, other = tmp_path / "home", tmp_path / "copy", tmp_path / "other"
    assert main(["--home", str(home), "init"]) == 0
    assert main(["--home", str(home), "backup", str(copy)]) == 0
    prepare(copy / "store.db", BELIEVES)
    manifest = json.loads((copy / "backup.json").read_text())
    content = (copy / "store.db").read_bytes()
    manifest["files"]["store.db"] = {"size": len(content), "blake2b": blake2b(content, digest_size=32).hexdigest()}
    (copy / "backup.json").write_text(json.dumps(manifest))
    capsys.readouterr()
    assert main(["--home", str(other), "restore", str(copy)]) != 0
    assert f"{copy}: the trigger 'believes' is in no store of Culm's" in capsys.readouterr().err
    assert not other.exists()
