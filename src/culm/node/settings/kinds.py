"""The kinds of values that a setting can have: how each is read, written, and named in an error message.

``read`` turns a value of the file into the one that the node uses, or raises ``ValueError``. ``write`` turns it back
into TOML, for the example file and for ``culm config``.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

from culm.bamboo import MAX_U64
from culm.errors import ConfigError
from culm.node.asking import read_anchor
from culm.node.network.urls import CALL_SCHEMES, EXEC_FORM, LISTENER_SCHEMES, UNIX_FORM, PeerUrl, forms
from culm.node.network.webaccess import read_origin
from culm.ranges import Feature, read_size
from culm.wire.places import log_text, parse_log

_HOST_PORT = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/@\[\]]+):(\d{1,5})")
_MAX_PORT = 65535
_SHOWN = 60  # characters of a wrong value in a message
LEAST_RATE = 16_000  # Bytes a second. At a lower rate one message takes longer than peers wait before they hang up.


@dataclass(frozen=True)
class Kind:
    """A kind of values. ``expected`` completes the sentence "expected ...". ``choices``: the words, if only some."""

    expected: str
    read: Callable[[Any], Any]
    write: Callable[[Any], str] = json.dumps
    choices: tuple[str, ...] | None = None


def _of(*types: type, fits: Callable[[Any], bool] = lambda _: True) -> Callable[[Any], Any]:
    """A function that reads values of these types. True is no number here, although Python counts it as an ``int``."""

    def read(value: Any) -> Any:  # noqa: ANN401 - checked here
        if type(value) not in types or not fits(value):
            raise ValueError
        return value

    return read


def _is_u64(value: float) -> bool:
    return 0 <= value <= MAX_U64


_text, _flag, _list = _of(str), _of(bool), _of(list, tuple)
_count, _number = _of(int, fits=_is_u64), _of(int, float, fits=_is_u64)
_above_0 = _of(int, float, fits=lambda value: 0 < value <= MAX_U64)


def _size(value: object) -> int:
    return read_size(value) if isinstance(value, str) else int(_count(value))


def _rate(value: object) -> int:
    return int(_of(int, fits=lambda rate: rate == 0 or rate >= LEAST_RATE)(_size(value)))


def _anchor(value: object) -> str:
    read_anchor(_text(value))
    return str(value)


def _host_port(value: object) -> str:
    match = _HOST_PORT.fullmatch(_text(value))
    if match is None or int(match[2]) > _MAX_PORT:
        raise ValueError
    return match[0]


def _ip(value: object) -> str:
    address = ip_address(_text(value))
    if getattr(address, "scope_id", None) is not None:
        raise ValueError
    return str(address)


def _each(read: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    return lambda values: tuple(map(read, _list(values)))


def _written_list(write: Callable[[Any], str]) -> Callable[[Any], str]:
    return lambda values: "[" + ", ".join(json.dumps(write(value)) for value in values) + "]"


def _written_number(value: float) -> str:
    return str(value).removesuffix(".0")  # ``str`` writes all digits, so that reading gives the same number


def choice(*values: str) -> Kind:
    """One of several words."""
    expected = "one of " + ", ".join(map(json.dumps, values))
    return Kind(expected, _of(str, fits=lambda value: value in values), choices=values)


TEXT = Kind("a string", _text)
HEX = Kind("hex digits, two for each byte", lambda value: bytes.fromhex(_text(value)).hex())
FLAG = Kind("true or false", _flag)
COUNT = Kind("a whole number, 0 or more", _count, str)
SECONDS = Kind("a number of seconds", lambda value: float(_number(value)), _written_number)
INTERVAL = Kind("a number of seconds above 0", lambda value: float(_above_0(value)), _written_number)
DAYS = Kind("a number of days", lambda value: float(_number(value)), _written_number)
NEWEST = Kind("a whole number, 1 or more", _of(int, fits=lambda value: 1 <= value <= MAX_U64), str)
ANCHOR = Kind('"SEQ:HASH", with 128 hex digits', _anchor)
SIZE = Kind('a number of bytes, or a string such as "64kB"', _size, str)
RATE = Kind(f'0, or at least {LEAST_RATE} bytes a second, also as a string such as "1MB"', _rate, str)
HOST_PORT = Kind('"HOST:PORT"', _host_port)
PEER = Kind(
    f"an address to connect to: {', '.join([*forms(CALL_SCHEMES), EXEC_FORM, UNIX_FORM])}",
    lambda value: PeerUrl.parse(_text(value)),
    lambda url: json.dumps(str(url)),
)
LISTENERS = Kind(
    f"a list of addresses to listen at: {', '.join([*forms(LISTENER_SCHEMES, listening=True), UNIX_FORM])}",
    _each(lambda value: PeerUrl.parse(_text(value), schemes=LISTENER_SCHEMES, may_be_zero=True)),
    _written_list(str),
)
ORIGINS = Kind(
    'a list of origins, such as "https://example.org"',
    _each(lambda value: read_origin(_text(value))),
    _written_list(str),
)
IPS = Kind('a list of IP addresses, such as "192.168.1.5"', _each(_ip), _written_list(str))
LOGS = Kind('a list of logs, each "AUTHOR/LOG"', _each(lambda value: parse_log(_text(value))), _written_list(log_text))
FEATURES = Kind(
    f"a list of range features: {', '.join(map(json.dumps, Feature))}",
    _each(lambda value: Feature(_text(value))),
    _written_list(str),
)


def read_value(kind: Kind, value: object) -> Any:  # noqa: ANN401 - what the kind makes of it
    """Read a value of a kind; ``ValueError`` with the reason if it is not of that kind."""
    try:
        return kind.read(value)
    except ConfigError as error:  # a more exact reason than "expected ..."
        raise ValueError(str(error)) from None
    except ValueError:
        raise ValueError(f"expected {kind.expected}, not {shown(value)}") from None


def shown(value: object) -> str:
    """A wrong value as a message shows it, shortened."""
    try:
        text = repr(value) if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)
    except ValueError:  # Python refuses to write numbers of more than 4,300 digits.
        text = "a number with thousands of digits"
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
