"""Reading ``culm.toml``: every setting with its value and its origin.

A fault is a ``ConfigError`` that names the file, the line, the key and the expected value. Unknown keys are faults as
well, because a misspelt limit that is silently ignored protects nobody.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any

from culm.bushbaby import Limits
from culm.errors import ConfigError
from culm.node.asking import OPTIONS, how_of, unfit
from culm.node.config import NodeLimits, PeerSettings
from culm.node.network.urls import PeerUrl
from culm.node.proposals.options import ProposalOptions
from culm.node.settings.kinds import read_value, shown
from culm.node.settings.lines import Lines
from culm.node.settings.lines import Path as KeyPath
from culm.node.settings.schema import LIMITS, NODE, NODE_LIMITS, PEER_LIMITS, PEERS, PROPOSALS, PROTOCOL_LIMITS, Section
from culm.staging import is_named_pipe

MAX_FILE_BYTES = 1024 * 1024  # A configuration has some kilobytes; the limit catches a wrong path before it is read.
DEFAULT = "default"
_DECIMAL = re.compile(r"[0-9]+\.[0-9]+")
_PLACE = re.compile(r" ?\(at (?:line (\d+), column \d+|end of document)\)\Z")


@dataclass(frozen=True)
class Settings:
    """The values of all settings by full name (``limits.max_logs``), their origins (file and line), and the peers."""

    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    peers: tuple[PeerSettings, ...] = ()
    peers_origin: str = DEFAULT

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - each has its own kind
        return self.values[name]

    @property
    def clump(self) -> bytes | None:
        """The clump, which may be empty; None if none is given, because most protocols have none."""
        if self["clump"] is not None:
            return self["clump"].encode("utf-8", errors="surrogateescape")  # type: ignore[no-any-return]
        return None if self["clump_hex"] is None else bytes.fromhex(self["clump_hex"])

    def origin(self, name: str) -> str:
        """The origin of a setting's value: file and line, "command line" or "default"."""
        return self.origins.get(name, DEFAULT)

    def with_values(self, values: dict[str, Any], origin: str) -> Settings:
        """A copy with other values for some settings, whose origin is ``origin``."""
        origins = {**self.origins, **dict.fromkeys(values, origin)}
        return replace(self, values={**self.values, **values}, origins=origins)


def defaults() -> Settings:
    """The settings without a file."""
    sections = (NODE, LIMITS, PROPOSALS)
    return Settings({section.full_name(key.name): key.default for section in sections for key in section.keys})


def load(path: Path, *, must_exist: bool = True) -> Settings:
    """Read a file; without ``must_exist`` a missing one means the defaults. ``ConfigError`` for any fault in it."""
    if is_named_pipe(path):
        raise ConfigError(f"cannot read {path}: it is a named pipe; name a file with --config FILE")
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        if not must_exist:
            return defaults()
        raise ConfigError(f"{path} does not exist; name another file with --config FILE") from None
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(f"{path} is larger than {MAX_FILE_BYTES} bytes, too large for a configuration")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ConfigError(f"{path}, line {line}: not UTF-8 text") from None
    return read_settings(path, text)


def read_settings(path: Path, text: str) -> Settings:
    """Read the text of a file; ``path`` is what messages call it. ``ConfigError`` for any fault in it."""
    return _Reader(path, text).read()


def read_limits(texts: Iterable[str]) -> dict[str, float]:
    """The settings that ``NAME=VALUE`` texts change, values as in the file; ``ConfigError`` for any other text."""
    kinds = {key.name: key.kind for key in LIMITS.keys}
    found: dict[str, float] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if name not in kinds:
            meant = get_close_matches(name, kinds, 1)
            raise ConfigError(
                f"there is no limit {name!r}; " + (f"did you mean {meant[0]}?" if meant else "culm config lists them")
            )
        try:
            number = int(value) if value.isdecimal() else float(value) if _DECIMAL.fullmatch(value) else value
            found[LIMITS.full_name(name)] = read_value(kinds[name], number)
        except ValueError as error:
            raise ConfigError(f"limit {name}: {error}") from None
    return found


def limits_of(settings: Settings) -> tuple[NodeLimits, Limits]:
    """The limits of a node, and those of its protocol."""
    own = {key.name: settings[LIMITS.full_name(key.name)] for key in NODE_LIMITS}
    protocol = {key.name: settings[LIMITS.full_name(key.name)] for key in PROTOCOL_LIMITS}
    return NodeLimits(**own), Limits(**protocol)


class _Reader:
    """Reads one file."""

    def __init__(self, path: Path, text: str) -> None:
        self._path = path
        self._text = text.replace("\r\n", "\n")

    def read(self) -> Settings:
        """Read the whole file."""
        try:
            document = tomllib.loads(self._text)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise ConfigError(self._syntax(str(error))) from None
        except ValueError:  # Python refuses to read numbers of more than 4,300 digits.
            raise ConfigError(self._syntax("a number with thousands of digits")) from None
        found = defaults()
        peers = document.pop(PEERS.name, None)
        for section in (LIMITS, PROPOSALS):
            path = (section.name,)
            found = self._into(found, section, path, self._table(path, document.pop(section.name, {})))
        found = self._into(found, NODE, (), document)
        if found["clump"] is not None and found["clump_hex"] is not None:
            raise self._error(("clump_hex",), "give clump or clump_hex, not both")
        if peers is not None:
            origin = self._origin((PEERS.name,))
            found = replace(found, peers=tuple(self._peers(found, peers)), peers_origin=origin)
        return found

    def _into(self, found: Settings, section: Section, path: KeyPath, table: dict[str, Any]) -> Settings:
        for name, value in self._values(section, path, table).items():
            found = found.with_values({section.full_name(name): value}, self._origin((*path, name)))
        return found

    def _values(self, section: Section, path: KeyPath, table: dict[str, Any]) -> dict[str, Any]:
        keys = {key.name: key for key in section.keys}
        tables = [inner.name for inner in (LIMITS, PROPOSALS, PEERS)] if section is NODE else []
        values = {}
        for name, value in table.items():
            if name not in keys:
                names = [*keys, *tables]
                near = get_close_matches(name, names, 1)
                hint = f"did you mean {near[0]}?" if near else "expected one of " + ", ".join(sorted(names))
                raise self._error((*path, name), f"unknown setting; {hint}")
            try:
                values[name] = read_value(keys[name].kind, value)
            except ValueError as error:
                raise self._error((*path, name), str(error)) from None
        return values

    def _peers(self, found: Settings, tables: Any) -> Iterable[PeerSettings]:  # noqa: ANN401 - whatever stands there
        if not isinstance(tables, list):
            raise self._error((PEERS.name,), "expected a [[peers]] table for each peer")
        seen = set()
        for at, given in enumerate(tables):
            path = (PEERS.name, at)
            table = dict(self._table(path, given))
            limits = self._table((*path, "limits"), table.pop("limits", {}))
            values = self._values(PEERS, path, table)
            if "url" not in values:
                raise self._error(path, 'this peer has no url; add url = "SCHEME://HOST:PORT"')
            if values["url"] in seen:
                raise self._error((*path, "url"), f"{values['url']} is listed twice")
            seen.add(values["url"])
            own = self._values(PEER_LIMITS, (*path, "limits"), limits)
            options = {name: values.pop(name) for name in OPTIONS if name in values}
            self._check_options(path, values["url"], options)
            yield peer_settings(found, **values, limits=own, options=options)

    def _check_options(self, path: KeyPath, url: PeerUrl, options: dict[str, Any]) -> None:
        for name in options:
            if reason := unfit(name, url):
                raise self._error((*path, name), reason)
        try:
            how_of(url, options, ProposalOptions())
        except ConfigError as error:
            raise self._error(path, str(error)) from None

    def _table(self, path: KeyPath, value: Any) -> dict[str, Any]:  # noqa: ANN401 - whatever stands there
        if not isinstance(value, dict):
            raise self._error(path, f"expected a table, not {shown(value)}")
        return value

    @cached_property
    def _lines(self) -> Lines:
        return Lines(self._text)

    def _origin(self, path: KeyPath) -> str:
        return f"{self._path}:{self._lines.of(path)}"

    def _error(self, path: KeyPath, reason: str) -> ConfigError:
        name = "".join(f"[{step + 1}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")
        return ConfigError(f"{self._path}, line {self._lines.of(path)}: {name}: {reason}")

    def _syntax(self, reason: str) -> str:
        match = _PLACE.search(reason)
        line = int(match[1]) if match and match[1] else max(1, len(self._text.splitlines()))
        text = _PLACE.sub("", reason)
        return f"{self._path}, line {line}: not TOML: {text[:1].lower()}{text[1:]}"


def peer_settings(
    settings: Settings,
    url: Any,  # noqa: ANN401 - a PeerUrl
    name: str | None = None,
    download: int | None = None,
    upload: int | None = None,
    limits: dict[str, Any] | None = None,
    options: dict[str, Any] | None = None,
    token_file: str | None = None,
) -> PeerSettings:
    """The settings of a peer: its own, and those for all peers where it has none."""
    return PeerSettings(
        url,
        name or str(url),
        settings["limits.max_rate"] if download is None else download,
        settings["limits.max_send_rate"] if upload is None else upload,
        limits or {},
        options or {},
        None if token_file is None else Path(token_file),
    )
