"""Finding the line of a key: ``tomllib`` tells lines for what it cannot read only.

A statement begins behind the last line up to which the file can be read, and its key is there in what can be read up to
its own last line.
"""

from __future__ import annotations

import tomllib
from typing import Any

Path = tuple[str | int, ...]


def line_of(text: str, path: Path) -> int:
    """The line, from 1, at which the statement begins that sets a key of a readable text; 1 if none does."""
    lines = text.splitlines()
    begin = 0
    for end in range(1, len(lines) + 1):
        try:
            document = tomllib.loads("\n".join(lines[:end]) + "\n")
        except tomllib.TOMLDecodeError:
            continue
        if _has(document, path):
            return begin + 1
        begin = end
    return 1


def _has(document: Any, path: Path) -> bool:  # noqa: ANN401 - any part of a document
    for step in path:
        if isinstance(step, int):
            if not isinstance(document, list) or len(document) <= step:
                return False
            document = document[step]
        elif not isinstance(document, dict) or step not in document:
            return False
        else:
            document = document[step]
    return True
