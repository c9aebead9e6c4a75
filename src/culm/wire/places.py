"""Places as people type and read them: ``AUTHOR``, ``AUTHOR/LOG``, ``AUTHOR/LOG/SEQ``; and the names of clumps.

Authors print as 43 base62 characters, because that is shorter than hex and selects with a double click. 64 hex digits
are accepted as well.
"""

from culm.bamboo import read_u64
from culm.bamboo.base62 import decode_base62, encode_base62
from culm.errors import ConfigError, EncodingError, Place
from culm.types import Log

_HEX_DIGITS = 64
# Of letters that all keyboards have: a name that looks like another one could be in an invitation. At most 32
# characters, so that no name can be a key.
_NAME_CHARS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")
_MOST_NAME_CHARS = 32

NAME_FORM = "up to 32 letters (a to z), digits, '-', '_' and '.', beginning with a letter"


def is_name(text: str) -> bool:
    """Whether a key can be given this name."""
    return text[:1].isalpha() and len(text) <= _MOST_NAME_CHARS and _NAME_CHARS.issuperset(text)


def author_text(author: bytes) -> str:
    """An author (32 bytes) as 43 base62 characters."""
    return encode_base62(author).decode()


def place_text(place: Place) -> str:
    """A place as ``AUTHOR/LOG/SEQ``."""
    return f"{author_text(place.author)}/{place.log_id}/{place.seq}"


def log_text(log: Log) -> str:
    """A log as ``AUTHOR/LOG``."""
    return f"{author_text(log[0])}/{log[1]}"


def clump_name(clump: bytes) -> str:
    """A clump for people: its text, or its bytes in hex; "(no clump)" for the nameless one."""
    if not clump:
        return "(no clump)"
    try:
        text = clump.decode()
    except UnicodeDecodeError:
        text = ""
    return text if text.isprintable() and text else f"{clump.hex()} (hex)"


def parse_author(text: str) -> bytes:
    """An author from base62 or hex; ``ConfigError`` if it is neither."""
    if len(text) == _HEX_DIGITS:
        try:
            return bytes.fromhex(text)
        except ValueError:
            pass
    try:
        return decode_base62(text.encode("ascii", errors="replace"))
    except EncodingError as error:
        msg = f"{text!r} is not an author (43 base62 characters, or 64 hex digits): {error}"
        raise ConfigError(msg) from None


def parse_number(text: str, name: str, least: int = 0) -> int:
    """A number from ``least`` to 2^64 - 1; ``ConfigError`` otherwise."""
    number = read_u64(text)
    if number is None or number < least:
        msg = f"{text!r} is not a {name} ({least} to 2^64 - 1)"
        raise ConfigError(msg)
    return number


def parse_log(text: str) -> Log:
    """``AUTHOR/LOG``; ``ConfigError`` otherwise."""
    author, slash, log_id = text.partition("/")
    if not slash:
        msg = f"{text!r} is not AUTHOR/LOG"
        raise ConfigError(msg)
    return parse_author(author), parse_number(log_id, "log id")


def parse_place(text: str) -> Place:
    """``AUTHOR/LOG/SEQ``; ``ConfigError`` otherwise."""
    log, _, seq = text.rpartition("/")
    if "/" not in log:
        msg = f"{text!r} is not AUTHOR/LOG/SEQ"
        raise ConfigError(msg)
    return Place(*parse_log(log), parse_number(seq, "sequence number", 1))


def parse_log_or_place(text: str) -> tuple[Log, int | None]:
    """``AUTHOR/LOG`` or ``AUTHOR/LOG/SEQ``: the log, and the sequence number or None. ``ConfigError`` otherwise."""
    if text.count("/") >= 2:
        place = parse_place(text)
        return (place.author, place.log_id), place.seq
    return parse_log(text), None
