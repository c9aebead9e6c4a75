"""The forms in which programs can name authors and logs, or give payloads, each read into one form."""

from collections.abc import Iterable

from culm.bamboo.entry import AUTHOR_BYTES
from culm.bamboo.varu64 import MAX_U64
from culm.errors import ConfigError
from culm.store.values import Bytes
from culm.types import Log
from culm.wire.places import parse_author, parse_log

AuthorName = bytes | str
"""An author: 32 bytes, or text (43 base62 characters, or 64 hex digits)."""

LogName = tuple[bytes, int] | str | int
"""A log: author and log id, or ``AUTHOR/LOG`` as text. A number alone is the id of one of the node's own logs."""

Payload = bytes | bytearray | memoryview | str


def author_of(name: AuthorName) -> bytes:
    """The author's 32 bytes; ``ConfigError`` if the name is not an author."""
    author = parse_author(name) if isinstance(name, str) else name
    if len(author) != AUTHOR_BYTES:
        raise ConfigError(f"an author is {AUTHOR_BYTES} bytes, not {len(author)}")
    return author


def log_of(name: LogName, own: bytes) -> Log:
    """The log's author and id; ``ConfigError`` if the name is not a log. ``own`` is the node's author."""
    if isinstance(name, int):
        name = (own, name)
    author, log_id = parse_log(name) if isinstance(name, str) else name
    if not 0 <= log_id <= MAX_U64:
        raise ConfigError(f"{log_id} is not a log id (0 to 2^64 - 1)")
    return author_of(author), log_id


def what_of(name: AuthorName | LogName | None, own: bytes) -> tuple[bytes | None, int | None]:
    """Author and log id that a name selects; None for any author, or for all logs of an author."""
    if name is None:
        return None, None
    if isinstance(name, bytes) or (isinstance(name, str) and "/" not in name):
        return author_of(name), None
    return log_of(name, own)


def pieces_of(payload: Payload | Iterable[Bytes]) -> Iterable[Bytes]:
    """The payload as an iterable of bytes; text is encoded as UTF-8."""
    if isinstance(payload, str):
        return [payload.encode()]
    if isinstance(payload, bytes | bytearray | memoryview):
        return [payload]
    return payload
