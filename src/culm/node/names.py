"""The names that a person has given to keys, kept in ``HOME/names.json``.

A key is the only thing that identifies somebody; a name is a note of this home, and means nothing elsewhere. So names
are never sent, but for the one that a person puts into an invitation. A name that came with an invitation stays marked
as *suggested* until the person gives it themselves: its owner has chosen it, and perhaps to be taken for another.

Two keys never have the same name, whatever its capitals, so that a name always means one key.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from culm.bamboo.entry import AUTHOR_BYTES
from culm.errors import ConfigError, Place
from culm.staging import replace_text
from culm.types import Log
from culm.wire.places import NAME_FORM, author_text, is_name

_SHORT = 8  # Characters of a key beside its name: 2^47 keys have to be made to meet those of a given one.


class Name(NamedTuple):
    """What a key is called, and whether an invitation has only suggested it."""

    text: str
    suggested: bool = False


class Names:
    """Names by key (32 bytes). As text, a key without a name is the whole key, so that it can be copied."""

    # No dataclass: to make one takes a millisecond, and every command begins with this module.

    def __init__(self, of: Mapping[bytes, Name] | None = None) -> None:
        self.of: Mapping[bytes, Name] = of or {}

    def key(self, text: str) -> bytes | None:
        """The key with this name, whatever the capitals; None if there is none."""
        return next((key for key, name in self.of.items() if name.text.lower() == text.lower()), None)

    def author(self, author: bytes) -> str:
        """An author for people: ``alice (msdHq7OM)``, or the whole key."""
        return self._shown(author, "")

    def log(self, log: Log) -> str:
        """A log for people: ``alice/1 (msdHq7OM)``, or ``KEY/1``."""
        return self._shown(log[0], f"/{log[1]}")

    def place(self, place: Place) -> str:
        """An entry for people: ``alice/1/7 (msdHq7OM)``, or ``KEY/1/7``."""
        return self._shown(place.author, f"/{place.log_id}/{place.seq}")

    def what(self, what: bytes | Log) -> str:
        """An author or a log for people."""
        return self.log(what) if isinstance(what, tuple) else self.author(what)

    def _shown(self, author: bytes, rest: str) -> str:
        name = self.of.get(author)
        if name is None:
            return author_text(author) + rest
        return f"{name.text}{rest} ({author_text(author)[:_SHORT]}{', suggested' if name.suggested else ''})"

    def with_name(self, key: bytes, name: Name) -> "Names":
        """The same with a key named; ``ConfigError`` if another key has the name, or if it cannot be one."""
        if not is_name(name.text):
            raise ConfigError(f"{name.text!r} cannot be a name: use {NAME_FORM}")
        holder = self.key(name.text)
        if holder is not None and holder != key:
            raise ConfigError(
                f"{name.text} is the name of {author_text(holder)} already; rename it (culm name {name.text} OTHER),"
                f" or take it away (culm name {name.text} --remove)"
            )
        return Names({**self.of, key: name})

    def without(self, key: bytes) -> "Names":
        """The same without a key's name; ``ConfigError`` if it has none."""
        if key not in self.of:
            raise ConfigError(f"{author_text(key)} has no name")
        return Names({other: name for other, name in self.of.items() if other != key})

    def sorted(self) -> Iterator[tuple[bytes, Name]]:
        """All of them by name, capitals or not."""
        yield from sorted(self.of.items(), key=lambda item: item[1].text.lower())


class NamesFile:
    """``HOME/names.json``: an object with an object for each key in hex, of ``name`` and perhaps ``suggested``."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def load(self) -> Names:
        """All names; none if there is no file. ``ConfigError`` if it is damaged."""
        try:
            document = json.loads(self.path.read_text())
        except FileNotFoundError:
            return Names()
        except (OSError, ValueError, RecursionError) as error:
            raise ConfigError(f"{self.path} cannot be read: {error}") from None
        try:
            names = Names(dict(_read(*item) for item in document.items()))
        except (ConfigError, ValueError, TypeError, AttributeError, KeyError) as error:
            raise ConfigError(f"{self.path} is damaged: {error}") from None
        if len({name.text.lower() for name in names.of.values()}) < len(names.of):
            raise ConfigError(f"{self.path} is damaged: two keys have one name")
        return names

    def save(self, names: Names) -> None:
        """Write all names; ``ConfigError`` if that fails, and then the file is as before."""
        document: dict[str, dict[str, Any]] = {
            key.hex(): {"name": name.text} | ({"suggested": True} if name.suggested else {})
            for key, name in names.sorted()
        }
        try:
            replace_text(self.path, json.dumps(document, indent=2) + "\n", mode=0o600)
        except OSError as error:
            raise ConfigError(f"cannot write {self.path}: {error.strerror}") from None


def _read(key: str, name: dict[str, Any]) -> tuple[bytes, Name]:
    found = bytes.fromhex(key)
    if len(found) != AUTHOR_BYTES or not is_name(name["name"]):
        raise ValueError(f"{key!r} is not a key (64 hex digits) with a name")
    return found, Name(name["name"], name.get("suggested") is True)
