"""Refuses a store's file that holds more than Culm's tables, or other ones.

A store may come from somebody else: out of a backup, or as an input to Spark. SQLite runs the triggers that stand in
the file, and reads whatever goes by a table's name. So a trigger can call an unconnected entry verified, or delete the
proof of a fork, and a view can show what is nowhere. No check of single rows would notice.

Therefore the definitions in the file are compared with those that a fresh store of its version has, before any other
statement reads or writes it, and with the newest ones after a migration. Only SQLite's own tables may be there as well.
Comments and spaces are not compared, because their wording has changed between versions of Culm.
"""

import re
import sqlite3
from functools import cache

from culm.errors import StoreDamaged
from culm.store.database import Database
from culm.store.schema import NEWEST, SCRIPTS, VERSION

_OF_SQLITE = {"sqlite_sequence", "sqlite_stat1", "sqlite_stat4"}
_ADVICE = "somebody has changed the file, so take another copy"
_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_TOKEN = re.compile(r"""('(?:[^']|'')*'|"(?:[^"]|"")*"|\[[^\]]*\]|`[^`]*`|--[^\n]*|/\*.*?\*/|\w+|\S)""", re.DOTALL)

_Definitions = dict[tuple[str, str], tuple[str, str]]  # by kind and name: the table it belongs to, and its SQL


def check_definitions(database: Database, version: int) -> None:
    """``StoreDamaged``, naming what differs, unless the tables, indexes and triggers are those of a version."""
    found, expected = _definitions(database.connection), _expected(version)
    for kind, name in sorted(found.keys() ^ expected.keys()):
        what = "is missing" if (kind, name) in expected else "is in no store of Culm's"
        raise StoreDamaged(f"{database.path}: the {kind} {name!r} {what}; {_ADVICE}")
    for (kind, name), definition in sorted(found.items()):
        if not _is_same(definition, expected[kind, name]):
            raise StoreDamaged(f"{database.path}: the {kind} {name!r} is not as in a store of Culm's; {_ADVICE}")


@cache
def _expected(version: int) -> _Definitions:
    connection = sqlite3.connect(":memory:")
    try:
        for script in [NEWEST] if version == VERSION else SCRIPTS[:version]:
            connection.executescript(script)
        return _definitions(connection)
    finally:
        connection.close()


def _definitions(connection: sqlite3.Connection) -> _Definitions:
    found: _Definitions = {}
    for kind, name, table, sql in connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema"):
        if not _is_of_sqlite(kind, name, sql):
            found[str(kind), str(name)] = str(table), str(sql)
    return found


def _is_of_sqlite(kind: object, name: object, sql: object) -> bool:
    """Whether SQLite made it itself: its statistics, and the indexes behind UNIQUE and PRIMARY KEY."""
    if kind == "index":
        return sql is None and str(name).startswith("sqlite_autoindex_")
    return kind == "table" and name in _OF_SQLITE


def _is_same(one: tuple[str, str], other: tuple[str, str]) -> bool:
    """Whether two definitions differ in comments and spaces at most.

    Most stores were made by this version of Culm and hold the very same text. Splitting all definitions into words
    would take half of the time of opening such a store, so it is done for a text that differs only.
    """
    return one == other or (one[0] == other[0] and _words(one[1]) == _words(other[1]))


def _words(sql: str) -> list[str]:
    """The words and signs of a definition, without comments. Texts in quotes are one word each."""
    return [word for word in _TOKEN.findall(sql) if not _COMMENT.fullmatch(word)]
