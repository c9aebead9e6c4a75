"""The policy: whom a node talks to, what it takes, and what it gives.

These are choices of the operator, kept for each clump in ``HOME/policy.json``. An allow list that is not empty admits
only what it names. A block list wins over an allow list. Logs are shared unless the operator has unshared them. A node
that follows nothing in particular asks for everything that is allowed; following something narrows that to it.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, TypedDict

from culm.bamboo import MAX_U64, Entry
from culm.bamboo.entry import AUTHOR_BYTES
from culm.errors import ConfigError
from culm.node.interests.missing import EVERYTHING
from culm.node.interests.quotas import Quotas
from culm.ranges import Range, RangeSet, read_range, write_range
from culm.staging import replace_text
from culm.types import Log

Key = bytes
_NOTHING = RangeSet()


class Origins(Protocol):
    """Which logs of a store belong to the clump of a policy; see ``culm.store.provenance``."""

    def include(self, log: Log) -> bool:
        """Whether a log belongs to the clump."""

    def leave_out(self) -> bool:
        """Whether there may be logs that do not."""


class Shown(TypedDict):
    """The logs of a set of records, as ``culm.store`` takes it (``record_set``)."""

    only: Callable[[Log], bool] | None
    hidden: frozenset[Log]


@dataclass(frozen=True)
class Policy:
    """The choices for one clump. Keys are 32 bytes.

    ``interests`` narrows what is asked for: to ranges of the logs that it names, and of all logs of the authors that it
    names. None: everything that is allowed, and so with ``hoard``, whatever ``interests`` says. Logs of the authors in
    ``own``, our identities, are wanted in any case: somebody who has restored an old backup must get the end of their
    log back before they append to it, because otherwise they would fork it. ``promote`` names logs that are sent to
    every peer unasked. ``curate`` is called with each entry and its payload before it is kept; what it refuses is
    neither kept nor passed on. ``quotas``: how much of the logs of others is kept. ``origins`` is set by
    ``culm.node.storage.source``; None: all logs belong to the clump.
    """

    allow_peers: frozenset[Key] = frozenset()
    block_peers: frozenset[Key] = frozenset()
    allow_authors: frozenset[Key] = frozenset()
    block_authors: frozenset[Key] = frozenset()
    unshared: frozenset[Log] = frozenset()
    interests: Mapping[Key | Log, RangeSet] | None = None
    hoard: bool = False
    promote: frozenset[Log] = frozenset()
    own: frozenset[Key] = frozenset()
    curate: Callable[[Entry, memoryview], bool] | None = field(default=None, compare=False)
    quotas: Quotas | None = field(default=None, compare=False, repr=False)
    origins: Origins | None = field(default=None, compare=False, repr=False)

    def admits_peer(self, key: Key) -> bool:
        """Whether to talk to a peer."""
        return key not in self.block_peers and (not self.allow_peers or key in self.allow_peers)

    def admits_author(self, author: Key) -> bool:
        """Whether to keep and pass on an author's logs."""
        return author not in self.block_authors and (not self.allow_authors or author in self.allow_authors)

    def wants(self, log: Log) -> bool:
        """Whether to ask for anything of a log."""
        return len(self.interest(log)) > 0

    def interest(self, log: Log) -> RangeSet:
        """What to ask for of a log; an empty set if its author is not admitted, or has used up a quota."""
        return _NOTHING if self.quotas is not None and self.quotas.is_full(log) else self._chosen(log)

    def carries(self, log: Log) -> bool:
        """Whether a log is among those to be kept, also where a quota has no room for more of it."""
        return len(self._chosen(log)) > 0

    def _chosen(self, log: Log) -> RangeSet:
        if not self.admits_author(log[0]):
            return _NOTHING
        if self.hoard or self.interests is None or log[0] in self.own:
            return EVERYTHING
        return self.interests.get(log) or self.interests.get(log[0]) or _NOTHING

    def keeps(self, entry: Entry, payload: memoryview) -> bool:
        """Whether to keep an entry that came, as far as ``curate`` and the quotas say."""
        if self.curate is not None and not self.curate(entry, payload):
            return False
        if self.quotas is None:
            return True
        # Whether a path leads from the newest entry through this one is not known here, so this one counts as newest.
        wanted = self.interest(entry.log).contains_payload(entry.seq, entry.size, newest=entry.seq)
        return self.quotas.takes(entry, len(payload), wanted=wanted)

    @property
    def keeps_everything(self) -> bool:
        """Whether every entry that comes is kept, so that nobody need look at single ones."""
        return self.curate is None and self.quotas is None

    def shares(self, log: Log) -> bool:
        """Whether to announce and send a log. Every protocol asks this of each log that a peer may learn of."""
        return (
            log not in self.unshared
            and self.admits_author(log[0])
            and (self.origins is None or self.origins.include(log))
        )

    def shares_just_now(self) -> Callable[[Log], bool]:
        """``shares``, to be asked of many logs at once: it costs nothing where all logs belong to the clump."""
        if self.origins is None or self.origins.leave_out():
            return self.shares
        return replace(self, origins=None).shares

    @property
    def wants_everything(self) -> bool:
        """Whether everything is asked for of every log, so that nobody need look at single logs."""
        return (self.hoard or self.interests is None) and not (self.allow_authors or self.block_authors or self.quotas)

    @property
    def shown(self) -> Shown:
        """Which logs a peer may compare with its own. To name the hidden ones costs less than to ask of each log."""
        has_others = self.origins is not None and self.origins.leave_out()
        if self.block_authors or self.allow_authors or has_others:
            return Shown(only=self.shares, hidden=frozenset())
        return Shown(only=None, hidden=self.unshared)


class PolicyFile:
    """``HOME/policy.json``: for each clump the lists, with keys as hex, and what is followed, with ranges as text."""

    _KEYS = ("allow_peers", "block_peers", "allow_authors", "block_authors")

    def __init__(self, path: Path) -> None:
        self.path = path

    def load(self, clump: bytes) -> Policy:
        """The choices for a clump; the defaults if there are none. ``ConfigError`` if the file is damaged."""
        document = self._read()
        try:
            lists = document.get(clump.hex(), {})
            allow_peers, block_peers, allow_authors, block_authors = (
                frozenset(map(_read_key, lists.get(name, ()))) for name in self._KEYS
            )
            unshared = frozenset((_read_key(author), _read_id(log_id)) for author, log_id in lists.get("unshared", ()))
            followed = lists.get("interests")
            interests = None if followed is None else dict(map(_read_interest, followed))
        except (ConfigError, ValueError, TypeError, AttributeError) as error:
            raise ConfigError(f"{self.path} is damaged: {error}") from None
        return Policy(allow_peers, block_peers, allow_authors, block_authors, unshared, interests)

    def unshared(self) -> dict[Log, list[bytes]]:
        """For each log that is not shared everywhere, the clumps in which it is not; ``ConfigError`` as above."""
        found: dict[Log, list[bytes]] = {}
        for name in sorted(self._read()):
            try:
                clump = bytes.fromhex(name)
            except ValueError:
                raise ConfigError(f"{self.path} is damaged: {name!r} is no clump in hex") from None
            for log in self.load(clump).unshared:
                found.setdefault(log, []).append(clump)
        return found

    def save(self, clump: bytes, policy: Policy) -> None:
        """Write the lists and interests of a clump; ``ConfigError`` if that fails, and then the file is as before.

        ``hoard``, ``promote``, ``own``, ``curate`` and ``quotas`` are not kept.
        """
        document = self._read()
        lists: dict[str, Any] = {name: sorted(key.hex() for key in getattr(policy, name)) for name in self._KEYS}
        lists["unshared"] = sorted([author.hex(), log_id] for author, log_id in policy.unshared)
        if policy.interests is not None:
            lists["interests"] = sorted(
                (_written_interest(*item) for item in policy.interests.items()),
                key=lambda item: (item[0], item[1] is not None, item[1] or 0),
            )
        document[clump.hex()] = lists
        try:
            replace_text(self.path, json.dumps(document, indent=2) + "\n")
        except OSError as error:
            raise ConfigError(f"cannot write {self.path}: {error.strerror}") from None

    def _read(self) -> dict[str, Any]:
        try:
            document = json.loads(self.path.read_text())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError) as error:
            raise ConfigError(f"{self.path} cannot be read: {error}") from None
        if not isinstance(document, dict):
            raise ConfigError(f"{self.path} is damaged: expected a JSON object with one member for each clump")
        return document


def _read_interest(item: object) -> tuple[Key | Log, RangeSet]:
    """What is followed, from ``[author, log id or null, [range, ...]]``; ``ValueError`` or ``TypeError`` otherwise."""
    if not isinstance(item, list):
        raise TypeError("an item of interests is not a list of author, log id (or null) and ranges")
    author, log_id, texts = item
    key = _read_key(author)
    return (key if log_id is None else (key, _read_id(log_id))), RangeSet(map(read_range, texts))


def _read_key(text: str) -> Key:
    key = bytes.fromhex(text)
    if len(key) != AUTHOR_BYTES:
        raise ValueError(f"{text!r} is not a key (64 hex digits)")
    return key


def _read_id(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_U64:
        raise ValueError(f"{value!r} is not a log id (0 to 2^64 - 1)")
    return value


def _written_interest(what: Key | Log, ranges: Iterable[Range]) -> list[Any]:
    author, log_id = what if isinstance(what, tuple) else (what, None)
    return [author.hex(), log_id, [write_range(item) for item in ranges]]
