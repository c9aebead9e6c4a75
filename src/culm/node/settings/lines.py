"""Finding the line on which a key is set, for error messages.

``tomllib`` reports a line only for text that it cannot read. A value that is valid TOML but no valid setting has none.
A second TOML parser would be a lot of code. Instead the text, which ``tomllib`` has accepted, is cut into statements;
that needs only strings, comments and brackets to be told apart. ``tomllib`` then reads each statement alone. The keys
that it finds, in the table that the last header opened, are set on the first line of the statement.
"""

import re
import tomllib
from collections.abc import Iterator
from typing import Any

Path = tuple[str | int, ...]

_TOKEN = re.compile(
    r'"""(?:[^\\]|\\.)*?"""(?:"{0,2})'  # strings of several lines; one or two quotes may stand before the last three
    r"|'''.*?'''(?:'{0,2})"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'"
    r"|#[^\n]*"
    r"|[\[\]{}\n]"
    r"|[^\"'#\[\]{}\n]+",
    re.DOTALL,
)


class Lines:
    """The line of every key in a text that ``tomllib`` can read, and whose lines end with a line feed only."""

    def __init__(self, text: str) -> None:
        self._lines: dict[Path, int] = {}
        self._lists: dict[Path, int] = {}  # lists of tables, such as [[peers]], and how many tables each has so far
        self._table: Path = ()
        for line, statement in _statements(text):
            self._take(line, statement)

    def of(self, path: Path) -> int:
        """The line, from 1, of the statement that sets a key; 1 if no statement does."""
        return self._lines.get(path, 1)

    def _take(self, line: int, statement: str) -> None:
        try:
            document = tomllib.loads(statement)
        except RecursionError:  # Nested so deeply that it could be read only with a shorter call stack than here.
            return
        if statement.startswith("["):
            self._open(line, document, is_list=statement.startswith("[["))
        else:
            for path in _paths(document):
                self._lines.setdefault(self._table + path, line)

    def _open(self, line: int, document: dict[str, Any], *, is_list: bool) -> None:
        """Take a header: the statements after it set keys of its table."""
        path: Path = ()
        while document:
            ((name, inner),) = document.items()
            path += (name,)
            self._lines.setdefault(path, line)
            document = inner if isinstance(inner, dict) else {}
            if is_list and not document:
                self._lists[path] = self._lists.get(path, 0) + 1
            if path in self._lists:
                path += (self._lists[path] - 1,)
                self._lines.setdefault(path, line)
        self._table = path


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """The statements, each with its first line; empty lines and comments between them are left out."""
    line = begin_line = 1
    begin = depth = 0
    for token in _TOKEN.finditer(text + "\n"):
        found = token[0]
        if found in {"[", "{"}:
            depth += 1
        elif found in {"]", "}"}:
            depth -= 1
        elif found == "\n" and depth == 0:
            statement = text[begin : token.start()].strip()
            if statement and not statement.startswith("#"):
                yield begin_line, statement
            begin, begin_line = token.end(), line + 1
        line += found.count("\n")


def _paths(document: dict[str, Any]) -> Iterator[Path]:
    """The paths to all values in a document, tables and lists included. Iterative, because documents can be deep."""
    waiting: list[tuple[Path, Any]] = [((), document)]
    while waiting:
        path, value = waiting.pop()
        if path:
            yield path
        steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        waiting += [((*path, step), inner) for step, inner in steps]
