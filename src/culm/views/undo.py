"""Taking rows back: each change of a table leaves behind the SQL that undoes it.

SQLite cannot go back to a state that was committed. So triggers write, for each row that is inserted, updated or
deleted, a statement that reverses it, under the number of the *step* (the entry that is applied). To take steps back,
their statements are run from the last to the first. The triggers are temporary: they belong to the connection that
applies entries, and the file has none of them.

Undoing costs as much as applying, and keeping the statements costs space. So they are kept for the last ``DEPTH``
steps; to go back farther, all rows are made anew.
"""

from __future__ import annotations

import sqlite3

from culm.errors import ConfigError

DEPTH = 10_000
"""Steps that can be taken back. An entry of a peer that was away for a day usually belongs behind most of them."""
OWN = "culm_"
"""The names of a view file's own tables begin with this."""


def tables(connection: sqlite3.Connection) -> list[str]:
    """The application's tables."""
    rows = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    return sorted(name for (name,) in rows if not name.startswith(OWN))


def check_tables(connection: sqlite3.Connection) -> None:
    """``ConfigError`` if changes of a table could not be taken back."""
    for table in tables(connection):
        (sql,) = connection.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (table,)).fetchone()
        if "AUTOINCREMENT" in sql.upper():
            raise ConfigError(
                f"table {table} of the view has AUTOINCREMENT, whose counter cannot be taken back: leave it out"
            )
        try:
            connection.execute(f"SELECT rowid FROM {quoted(table)} LIMIT 0")
        except sqlite3.OperationalError:
            raise ConfigError(f"table {table} of the view has no rowid: leave out WITHOUT ROWID") from None


def record(connection: sqlite3.Connection) -> None:
    """From now on, note how to undo each change of this connection, under the step that ``culm_step`` has."""
    connection.execute("CREATE TEMP TABLE IF NOT EXISTS culm_step (step INTEGER NOT NULL)")
    connection.execute("DELETE FROM temp.culm_step")
    connection.execute("INSERT INTO temp.culm_step VALUES (0)")
    for table in tables(connection):
        columns = [name for _, name, *_ in connection.execute(f"PRAGMA table_info({quoted(table)})")]
        for event, sql in _inverses(table, columns).items():
            connection.execute(
                f"CREATE TEMP TRIGGER {quoted(f'culm_{event}_{table}')} AFTER {event} ON main.{quoted(table)} BEGIN"
                f" INSERT INTO culm_undo (step, sql) SELECT step, {sql} FROM culm_step; END"
            )


def stop_recording(connection: sqlite3.Connection) -> None:
    """Stop noting changes: what follows is never taken back, or is itself taking back."""
    rows = connection.execute("SELECT name FROM sqlite_temp_schema WHERE type = 'trigger'").fetchall()
    for (name,) in rows:
        connection.execute(f"DROP TRIGGER temp.{quoted(name)}")


def set_step(connection: sqlite3.Connection, step: int) -> None:
    """The changes from here on belong to this step."""
    connection.execute("UPDATE temp.culm_step SET step = ?", (step,))


def undo(connection: sqlite3.Connection, step: int) -> None:
    """Take back all steps from ``step`` on."""
    query = "SELECT sql FROM culm_undo WHERE step >= ? ORDER BY step DESC, id DESC"
    for (sql,) in connection.execute(query, (step,)).fetchall():
        connection.execute(sql)
    connection.execute("DELETE FROM culm_undo WHERE step >= ?", (step,))


def _inverses(table: str, columns: list[str]) -> dict[str, str]:
    """For each kind of change an SQL expression, whose value is the statement that reverses it."""
    name = _text(quoted(table))
    names = _text(", ".join(["rowid", *map(quoted, columns)]))
    values = " || ', ' || ".join(f"quote(OLD.{each})" for each in ["rowid", *map(quoted, columns)])
    settings = " || ', ' || ".join(
        f"{_text(f'{each} = ')} || quote(OLD.{each})" for each in ["rowid", *map(quoted, columns)]
    )
    return {
        "INSERT": f"'DELETE FROM ' || {name} || ' WHERE rowid = ' || NEW.rowid",
        "DELETE": f"'INSERT INTO ' || {name} || ' (' || {names} || ') VALUES (' || {values} || ')'",
        "UPDATE": f"'UPDATE ' || {name} || ' SET ' || {settings} || ' WHERE rowid = ' || NEW.rowid",
    }


def quoted(name: str) -> str:
    """A name as SQL has it."""
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def _text(sql: str) -> str:
    doubled = sql.replace("'", "''")
    return f"'{doubled}'"
