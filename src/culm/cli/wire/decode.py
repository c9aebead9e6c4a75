"""``culm wire``: what a protocol message contains, for people who debug an implementation.

``culm wire check`` stands in ``culm.cli.wire.check``.

The messages are read by the readers of the protocols themselves. So the command accepts and refuses exactly what a node
does. Each protocol has a function that pulls a message from the bytes at an offset; those of negentropy are listed by
one of their own. Of malformed bytes the parts before the error are listed, and then comes ``EncodingError`` with the
offset.
"""

import argparse
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from pathlib import Path

from culm.bamboo import Entry
from culm.bamboo.yamf import YAMF_PREFIX
from culm.cli.command import Commands
from culm.cli.output import open_input, print_json, print_table
from culm.errors import ConfigError, EncodingError, RemoteProtocolError
from culm.intervals.codec import pull_message
from culm.intervals.messages import Eager
from culm.negentropy.codec import ID_BYTES, INFINITY, VERSION, VERSIONS, MalformedMessage, Mode, read_ranges
from culm.proposals.control import pull_control
from culm.proposals.data import Compressed, Raw, pull_data
from culm.wire.bymux import WRITE, pull_packet
from culm.wire.lzfoo import pull_head

_MAX_BYTES = 64 * 1024 * 1024  # of a message to decode: above the limits of all protocols
_IDS_SHOWN = 3  # ids of a list in the table; --json has all
_DATA_SHOWN = 32  # bytes of a payload, enough to recognise it
_PACKETS = ("credit", "write", "ping", "pong", "close", "stop read")  # of bymux, by their kind
Row = dict[str, object]
Part = tuple[str, str, int, int]
"""A message: its name, its fields as text, the offset behind it, and how many bytes of data follow there."""
Pull = Callable[[bytes, int], Part]


def register(commands: Commands) -> None:
    """Add the commands of this module."""
    decode = commands.add("wire decode", _decode)
    decode.add_argument("protocol", choices=sorted(_LISTINGS), help="the protocol that the bytes belong to")
    decode.add_argument("message", metavar="HEX|FILE", help="the message in hex, or a file with its bytes; - is stdin")


def _decode(arguments: argparse.Namespace) -> int:
    rows: list[Row] = []
    error: EncodingError | None = None
    try:
        _LISTINGS[arguments.protocol](_message(arguments.message), rows.append)
    except EncodingError as broken:
        error = broken
    if arguments.json:
        failure = None if error is None else {"offset": error.offset, "reason": str(error)}
        print_json({"protocol": arguments.protocol, "parts": rows, "error": failure})
        return 0 if error is None else 1
    if rows:
        print_table(
            arguments, list(rows[0]), [[_short(value) for value in row.values()] for row in rows], right=("offset",)
        )
    if error is not None:
        raise EncodingError(f"malformed at byte {error.offset}: {error}", error.offset)
    return 0


def _message(given: str) -> bytes:
    try:
        return bytes.fromhex(given)
    except ValueError:
        pass
    if given != "-" and not Path(given).exists():
        raise ConfigError(f"{given[:60]!r} is neither hex nor a file")
    with open_input(given) as file:
        message = file.read(_MAX_BYTES + 1)
    if len(message) > _MAX_BYTES:
        raise ConfigError(f"the message is larger than {_MAX_BYTES} bytes")
    return message


def _short(value: object) -> str:
    if isinstance(value, list):
        shown = ", ".join(f"{item[:16]}..." for item in value[:_IDS_SHOWN])
        return f"{len(value)} ids" + (f": {shown}" if shown else "") + (", ..." if len(value) > _IDS_SHOWN else "")
    return str(value)


def _list_negentropy(message: bytes, found: Callable[[Row], None]) -> None:
    if not message or message[0] not in VERSIONS:
        raise EncodingError("the first byte of a message is its version, 60 to 6f", 0)
    if message[0] != VERSION:
        found({"offset": 0, "up to": "", "mode": f"version {message[0]:#04x}, not 0x61", "payload": ""})
        return
    try:
        for item in read_ranges(message):
            bound = "infinity" if item.timestamp == INFINITY else f"{item.timestamp} {item.prefix.hex()}".strip()
            payload: object = item.payload.hex()
            if item.mode == Mode.ID_LIST:
                payload = [item.payload[at : at + ID_BYTES].hex() for at in range(0, len(item.payload), ID_BYTES)]
            mode = Mode(item.mode).name.lower().replace("_", " ")
            found({"offset": item.offset, "up to": bound, "mode": mode, "payload": payload})
    except MalformedMessage as error:
        raise EncodingError(error.reason, error.offset) from None


class _Alone:
    """Stands in for the session that the reader of intervals messages asks about: a message without one before it."""

    def starts(self) -> bool:
        """Whether a resolved start follows: only after a request with a relative start, and there is none here."""
        return False

    def has_hash(self, items: int, following: bytes) -> bool:  # noqa: ARG002
        """Whether a hash follows. The session would know; here the bytes decide, as no message begins like a hash."""
        return following == YAMF_PREFIX


def _pull_intervals(message: bytes, at: int) -> Part:
    value, at = pull_message(message, at, _Alone())
    return _words(value), _fields_text(value), at, value.count if isinstance(value, Eager) else 0


def _words(value: object) -> str:
    """``RequestCredit``: request credit."""
    name = type(value).__name__
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name).strip()


def _fields_text(value: object) -> str:
    """The fields of a message in their order on the wire, without those that are empty."""
    shown = []
    for item in fields(value):  # type: ignore[arg-type]
        content = getattr(value, item.name)
        if content is None or content is False or content == ():
            continue
        shown.append(item.name if content is True else f"{item.name} {_value_text(content)}")
    return ", ".join(shown)


def _value_text(content: object) -> str:
    match content:
        case bytes():
            return content.hex()
        case Entry():
            return content.encoded.hex()
        case Enum():
            return content.name.lower().replace("_", " ")
        case tuple():
            return "(" + "; ".join(map(_value_text, content)) + ")"
        case _ if is_dataclass(content):
            return f"{_words(content)} ({_fields_text(content)})"
    return str(content)


def _pull_control(message: bytes, at: int) -> Part:
    value, at = pull_control(message, at)
    return _words(value), _fields_text(value), at, 0


def _pull_data(message: bytes, at: int) -> Part:
    value, at = pull_data(message, at)
    size = value.count if isinstance(value, Raw) else value.size if isinstance(value, Compressed) else 0
    return _words(value), _fields_text(value), at, size


def _pull_bymux(message: bytes, at: int) -> Part:
    try:
        packet = pull_packet(message, at)
    except RemoteProtocolError as error:
        raise EncodingError(str(error), at) from None
    if packet is None:
        raise EncodingError("the last packet is incomplete", at)
    kind, stream, number, at = packet
    text = "connection" if stream is None else f"stream {stream}"
    text += "" if number is None else f", {number}"
    return _PACKETS[kind], text, at, number or 0 if kind == WRITE and stream is not None else 0


def _pull_lzfoo(message: bytes, at: int) -> Part:
    head = pull_head(message, at)
    if head is None:
        raise EncodingError("the last element is incomplete", at)
    length, offset, at = head
    if offset is not None:
        return "copy", f"{length} bytes from {offset} back", at, 0
    return "literal", f"{length} bytes", at, length


def _list_messages(pull: Pull, message: bytes, found: Callable[[Row], None]) -> None:
    """List the messages of a protocol one after the other, each with the data that follows it."""
    at = 0
    while at < len(message):
        begin = at
        name, text, at, size = pull(message, at)
        data = message[at : at + size]
        if data and len(data) == size:
            text += f", data {data[:_DATA_SHOWN].hex()}" + ("..." if len(data) > _DATA_SHOWN else "")
        found({"offset": begin, "message": name, "fields": text})
        if len(data) < size:
            raise EncodingError(f"the message announces {size} bytes, but only {len(data)} follow", at)
        at += size


_LISTINGS: dict[str, Callable[[bytes, Callable[[Row], None]], None]] = {
    "bymux": partial(_list_messages, _pull_bymux),
    "intervals": partial(_list_messages, _pull_intervals),
    "lzfoo": partial(_list_messages, _pull_lzfoo),
    "negentropy": _list_negentropy,
    "proposals-control": partial(_list_messages, _pull_control),
    "proposals-data": partial(_list_messages, _pull_data),
}
