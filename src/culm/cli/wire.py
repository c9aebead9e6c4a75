"""``culm wire``: what a protocol message contains, for people who debug an implementation.

The messages are read by the readers of the protocols themselves. So the command accepts and refuses exactly what a node
does. Each protocol has a function that lists the parts of a message; of a malformed one it lists the parts before the
error, and then raises ``EncodingError`` with the offset.
"""

import argparse
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path

from culm.bamboo import Entry
from culm.bamboo.yamf import YAMF_PREFIX
from culm.cli.command import Commands
from culm.cli.output import open_input, print_json, print_table
from culm.errors import ConfigError, EncodingError

_MAX_BYTES = 64 * 1024 * 1024  # of a message to decode: above the limits of all protocols
_IDS_SHOWN = 3  # ids of a list in the table; --json has all
_DATA_SHOWN = 32  # bytes of a payload, enough to recognise it
Row = dict[str, object]


def register(commands: Commands) -> None:
    """Add the commands of this module."""
    wire = commands.group("wire", "show what protocol messages contain")
    decode = wire.add("decode", _decode, "list the parts of a message; of a malformed one, the parts before the error")
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
        print_table(list(rows[0]), [[_short(value) for value in row.values()] for row in rows], right=("offset",))
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
    from culm.negentropy.codec import ID_BYTES, INFINITY, VERSION, VERSIONS, MalformedMessage, Mode, read_ranges  # noqa: PLC0415

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


def _list_intervals(message: bytes, found: Callable[[Row], None]) -> None:
    from culm.intervals.codec import pull_message  # noqa: PLC0415
    from culm.intervals.messages import Eager  # noqa: PLC0415

    at, context = 0, _Alone()
    while at < len(message):
        begin = at
        value, at = pull_message(message, at, context)
        size = value.count if isinstance(value, Eager) else 0
        at = _found_with_bytes(begin, _words(value), _fields_text(value), message, at, size, found)


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


def _list_control(message: bytes, found: Callable[[Row], None]) -> None:
    from culm.proposals import pull_control  # noqa: PLC0415

    at = 0
    while at < len(message):
        begin = at
        value, at = pull_control(message, at)
        found({"offset": begin, "message": _words(value), "fields": _fields_text(value)})


def _list_data(message: bytes, found: Callable[[Row], None]) -> None:
    from culm.proposals import pull_data  # noqa: PLC0415
    from culm.proposals.messages import Compressed, Raw  # noqa: PLC0415

    at = 0
    while at < len(message):
        begin = at
        value, at = pull_data(message, at)
        size = value.count if isinstance(value, Raw) else value.size if isinstance(value, Compressed) else 0
        at = _found_with_bytes(begin, _words(value), _fields_text(value), message, at, size, found)


def _list_bymux(message: bytes, found: Callable[[Row], None]) -> None:
    from culm.errors import RemoteProtocolError  # noqa: PLC0415
    from culm.wire.bymux import WRITE, pull_packet  # noqa: PLC0415

    names = ("credit", "write", "ping", "pong", "close", "stop read")
    at = 0
    while at < len(message):
        begin = at
        try:
            packet = pull_packet(message, at)
        except RemoteProtocolError as error:
            raise EncodingError(str(error), at) from None
        if packet is None:
            raise EncodingError("the last packet is incomplete", at)
        kind, stream, number, at = packet
        text = "connection" if stream is None else f"stream {stream}"
        text += "" if number is None else f", {number}"
        size = number or 0 if kind == WRITE and stream is not None else 0
        at = _found_with_bytes(begin, names[kind], text, message, at, size, found)


def _list_lzfoo(message: bytes, found: Callable[[Row], None]) -> None:
    from culm.wire.lzfoo import pull_head  # noqa: PLC0415

    at = 0
    while at < len(message):
        begin = at
        head = pull_head(message, at)
        if head is None:
            raise EncodingError("the last element is incomplete", at)
        length, offset, at = head
        if offset is not None:
            found({"offset": begin, "message": "copy", "fields": f"{length} bytes from {offset} back"})
        else:
            at = _found_with_bytes(begin, "literal", f"{length} bytes", message, at, length, found)


def _found_with_bytes(
    begin: int, name: str, text: str, message: bytes, at: int, size: int, found: Callable[[Row], None]
) -> int:
    """List a message that ``size`` bytes of data follow; returns the offset behind them."""
    data = message[at : at + size]
    if len(data) < size:
        found({"offset": begin, "message": name, "fields": text})
        raise EncodingError(f"the message announces {size} bytes, but only {len(data)} follow", at)
    if data:
        text += f", data {data[:_DATA_SHOWN].hex()}" + ("..." if len(data) > _DATA_SHOWN else "")
    found({"offset": begin, "message": name, "fields": text})
    return at + size


_LISTINGS: dict[str, Callable[[bytes, Callable[[Row], None]], None]] = {
    "bymux": _list_bymux,
    "intervals": _list_intervals,
    "lzfoo": _list_lzfoo,
    "negentropy": _list_negentropy,
    "proposals-control": _list_control,
    "proposals-data": _list_data,
}
