"""Finding the line of a key: ``tomllib`` tells lines for what it cannot read only.

A text that can be read is cut into its statements, for which nothing has to be known but strings, comments and
brackets. Each is then read alone: what it sets, in the table that the last header opened, is set on its first line.
"""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    """Where everything is set in a text, whose lines end with a line feed, and which ``tomllib`` can read."""

    def __init__(self, text: str) -> None:
        self._lines: dict[Path, int] = {}
        self._lists: dict[Path, int] = {}  # lists of tables, and how many of them have begun
        self._table: Path = ()
        for line, statement in _statements(text):
            self._take(line, statement)

    def of(self, path: Path) -> int:
        """The line, from 1, at which the statement begins that sets a key; 1 if none does."""
        return self._lines.get(path, 1)

    def _take(self, line: int, statement: str) -> None:
        try:
            document = tomllib.loads(statement)
        except RecursionError:  # so deep that there is room to read it only where nothing else is under way
            return
        if statement.startswith("["):
            self._open(line, document, is_list=statement.startswith("[["))
        else:
            for path in _paths(document):
                self._lines.setdefault(self._table + path, line)

    def _open(self, line: int, document: dict[str, Any], *, is_list: bool) -> None:
        """A header: what follows is about its table."""
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
    """The statements, without empty lines and comments between them, each with its line."""
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
    """The paths to everything in a document."""
    waiting: list[tuple[Path, Any]] = [((), document)]
    while waiting:
        path, value = waiting.pop()
        if path:
            yield path
        steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        waiting += [((*path, step), inner) for step, inner in steps]
