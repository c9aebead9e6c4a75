"""``culm wire``: what stands in a message."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from culm.bamboo.yamf import YAMF_PREFIX
from culm.cli.output import open_input, print_json, print_table
from culm.errors import ConfigError, EncodingError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from culm.cli.command import Commands

_MAX_BYTES = 64 * 1024 * 1024
_IDS_SHOWN = 3
_DATA_SHOWN = 32  # bytes
Row = dict[str, object]


def register(commands: Commands) -> None:
    """Add the commands of this module."""
    wire = commands.group("wire", "look into messages")
    decode = wire.add("decode", _decode, "list what a message says; a malformed one up to where it breaks, and why")
    decode.add_argument("protocol", choices=sorted(_LISTINGS))
    decode.add_argument("message", metavar="HEX|FILE", help="hex, or a file with the message's bytes; - is stdin")


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
        raise ConfigError(f"a message of more than {_MAX_BYTES} bytes")
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
    """What the reader of intervals messages has to know and a message alone does not tell: nothing is relative."""

    def starts(self) -> bool:
        """Whether a resolved start is written: only a request with a relative start would have one."""
        return False

    def has_hash(self, items: int, following: bytes) -> bool:  # noqa: ARG002
        """Whether a hash follows: no message begins as a hash does."""
        return following == YAMF_PREFIX


def _list_intervals(message: bytes, found: Callable[[Row], None]) -> None:
    from culm.intervals.codec import pull_message  # noqa: PLC0415
    from culm.intervals.messages import Eager  # noqa: PLC0415

    at, context = 0, _Alone()
    while at < len(message):
        begin = at
        value, at = pull_message(message, at, context)
        data = b""
        if isinstance(value, Eager):
            data = message[at : at + value.count]
            if len(data) < value.count:
                found({"offset": begin, "message": "eager", "fields": f"count {value.count}"})
                raise EncodingError(f"{value.count} bytes of item data are announced, {len(data)} are there", at)
            at += value.count
        text = _fields_text(value)
        if data:
            text += f", data {data[:_DATA_SHOWN].hex()}" + ("..." if len(data) > _DATA_SHOWN else "")
        found({"offset": begin, "message": _words(value), "fields": text})


def _words(value: object) -> str:
    """``RequestCredit``: request credit."""
    name = type(value).__name__
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name).strip()


def _fields_text(value: object) -> str:
    """The fields of a message that say something, in the order in which they are written."""
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
        case Enum():
            return content.name.lower().replace("_", " ")
        case tuple():
            return "(" + "; ".join(map(_value_text, content)) + ")"
        case _ if is_dataclass(content):
            return f"{_words(content)} ({_fields_text(content)})"
    return str(content)


_LISTINGS: dict[str, Callable[[bytes, Callable[[Row], None]], None]] = {
    "intervals": _list_intervals,
    "negentropy": _list_negentropy,
}
