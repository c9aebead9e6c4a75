"""``culm wire``: what stands in a message."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from culm.cli.output import open_input, print_json, print_table
from culm.errors import ConfigError, EncodingError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from culm.cli.command import Commands

_MAX_BYTES = 64 * 1024 * 1024
_IDS_SHOWN = 3
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


_LISTINGS: dict[str, Callable[[bytes, Callable[[Row], None]], None]] = {"negentropy": _list_negentropy}
