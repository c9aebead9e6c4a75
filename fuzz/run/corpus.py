"""Corpora: inputs that reach something new.

The saved ones are part of the repository, ``fuzz/corpus/TARGET.txt``: an input a line, as hexadecimal digits, or as a
JSON string where it is text. The working ones are folders of files, as the guided fuzzer keeps them.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from fuzz.target import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from fuzz.target import Target

MOST_TEXT = 20_000  # characters of a saved corpus
SAVED = ROOT / "fuzz" / "corpus"


def saved_file(name: str) -> Path:
    """Where the saved corpus of a target is."""
    return SAVED / f"{name}.txt"


def saved(name: str) -> list[bytes]:
    """The saved corpus of a target; empty if there is none."""
    file = saved_file(name)
    return [_read(line) for line in file.read_text().splitlines()] if file.exists() else []


def save(name: str, inputs: Iterable[bytes]) -> None:
    """Write a target's saved corpus, in an order that a change elsewhere leaves alone."""
    SAVED.mkdir(exist_ok=True)
    lines = [_write(content) for content in sorted(set(inputs), key=lambda content: (len(content), content))]
    saved_file(name).write_text("".join(f"{line}\n" for line in lines))


def fits(contents: Iterable[bytes]) -> bool:
    """Whether these are few enough to be saved."""
    return sum(len(_write(content)) + 1 for content in contents) <= MOST_TEXT


def _write(content: bytes) -> str:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return content.hex()
    plain = json.dumps(text)
    return plain if len(plain) < 2 * len(content) else content.hex()


def _read(line: str) -> bytes:
    return str(json.loads(line)).encode() if line.startswith('"') else bytes.fromhex(line)


def working(data: Path, target: Target) -> Path:
    """The folder of a target's working corpus, with its seeds and the saved corpus put in."""
    folder = data / "corpus" / target.name
    folder.mkdir(parents=True, exist_ok=True)
    for content in (*target.seeds, *saved(target.name)):
        file = folder / hashlib.sha1(content).hexdigest()  # noqa: S324 - the name that the guided fuzzer gives it
        if not file.exists():
            file.write_bytes(content)
    return folder
