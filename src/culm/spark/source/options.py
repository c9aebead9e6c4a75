"""The options of ``format("culm")``: which rows of the inputs are wanted.

=================  ===================================================================================================
``authors``        authors, comma separated, in base62 or hex; default: all
``logs``           logs, comma separated, as ``AUTHOR/LOG``; default: all
``fromSeqnum``     the first sequence number; default 1
``toSeqnum``       the last one, included; default 2^64 - 1
``payloads``       ``true``: with the payloads that are held; default ``false``
``maxPayload``     the most bytes of a payload that is put into a row; default 1048576. Larger ones are left out
``rejects``        ``true`` (default): also a row for everything that could not be read; ``only``; ``false``
``batch``          streaming: the most entries of a batch, of each store or log; default 100000
``wait``           following a peer: seconds of silence after which it has nothing to add; default 1, at most 600
=================  ===================================================================================================

Options that begin with ``fs.`` are Hadoop's settings for inputs on other machines, such as ``fs.s3a.endpoint``.
``authors`` and ``logs`` together take what either names. A reject belongs to no author and no log, so rejects come
whatever else is chosen.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from culm.bamboo import MAX_U64
from culm.errors import ConfigError
from culm.wire.places import parse_author, parse_log, parse_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from culm.spark.fields import Fields, Flags

_NAMES = ("authors", "logs", "fromseqnum", "toseqnum", "payloads", "maxpayload", "rejects", "batch", "wait")
_OF_SPARK = ("path", "paths", "checkpointlocation", "mode")  # options that Spark itself adds
_LONGEST_WAIT = 600.0  # Seconds. A batch waits at least so long for a silent peer, so a slip of the finger is refused.
_REJECTS = ("true", "false", "only")


@dataclass(frozen=True, slots=True)
class Options:
    """The options after they were checked. None: all authors, or all logs."""

    authors: frozenset[bytes] | None = None
    logs: frozenset[tuple[bytes, int]] | None = None
    low: int = 1
    high: int = MAX_U64
    payload_limit: int = -1
    """The most bytes of a payload in a row; -1: payloads are not wanted."""
    rejects: str = "true"
    batch: int = 100_000
    wait: float = 1.0
    """Seconds of silence after which a peer that is followed has nothing to add."""

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> Options:
        """Read the options as Spark gives them; ``ConfigError`` for an unknown one or a wrong value."""
        options = {name.lower(): value for name, value in given.items()}
        for name in options:
            if name not in (*_NAMES, *_OF_SPARK) and not name.startswith("fs."):
                raise ConfigError(f"format culm has no option {name!r}; it has {', '.join(_NAMES)}")
        authors, logs = options.get("authors"), options.get("logs")
        found = cls(
            None if authors is None else frozenset(map(parse_author, _listed(authors))),
            None if logs is None else frozenset(map(parse_log, _listed(logs))),
            parse_number(options.get("fromseqnum", "1"), "sequence number", 1),
            parse_number(options.get("toseqnum", str(MAX_U64)), "sequence number", 1),
            parse_number(options.get("maxpayload", "1048576"), "size") if _switch(options, "payloads") else -1,
            options.get("rejects", "true").lower(),
            parse_number(options.get("batch", "100000"), "number of entries", 1),
            _seconds(options.get("wait", "1")),
        )
        if found.rejects not in _REJECTS:
            raise ConfigError(f"the option rejects must be {' or '.join(_REJECTS)}, not {found.rejects!r}")
        return found

    def chosen(self, fields: Fields) -> Flags:
        """Which of these entries are wanted, by author, log and number; never those that are not ``good``."""
        rows: Flags = fields.good & (fields.seq >= np.uint64(self.low)) & (fields.seq <= np.uint64(self.high))
        if self.authors is not None or self.logs is not None:
            for at in rows.nonzero()[0]:
                author = fields.data[fields.start[at] + 1 : fields.start[at] + 33].tobytes()
                rows[at] = self.wants(author, int(fields.log_id[at]))
        return rows

    def wants(self, author: bytes, log_id: int) -> bool:
        """Whether the entries of a log are wanted."""
        if self.authors is None and self.logs is None:
            return True
        return author in (self.authors or ()) or (author, log_id) in (self.logs or ())


def paths_of(given: Mapping[str, str]) -> list[str]:
    """The paths given to ``load`` or ``save``; ``ConfigError`` if there are none."""
    options = {name.lower(): value for name, value in given.items()}
    if "paths" in options:
        return [str(path) for path in json.loads(options["paths"])]
    if "path" in options:
        return [options["path"]]
    raise ConfigError("format culm needs a path: stores, export files, tables of entries")


def settings_of(given: Mapping[str, str]) -> dict[str, str]:
    """The settings of Hadoop among the options, such as ``fs.s3a.endpoint``."""
    return {name.lower(): value for name, value in given.items() if name.lower().startswith("fs.")}


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.0 < seconds <= _LONGEST_WAIT:
        raise ConfigError(f"the option wait: {text!r} is not a time; expected seconds above 0, up to {_LONGEST_WAIT:g}")
    return seconds


def _switch(options: Mapping[str, str], name: str) -> bool:
    value = options.get(name, "false").lower()
    if value not in ("true", "false"):
        raise ConfigError(f"the option {name} must be true or false, not {value!r}")
    return value == "true"
