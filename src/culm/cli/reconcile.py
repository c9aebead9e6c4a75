"""``culm reconcile``: what one store has and another lacks. Either can be a record index, the second also a peer.

The two are compared by negentropy (``culm.negentropy``), as nodes do it, in three views: entries, payloads, and heads
(the newest entry of each log). Two local stores could be compared entry by entry instead. But the command also shows
what the comparison costs, in rounds and bytes, which is what people want to know before they connect two nodes.
"""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from culm.cli.command import Commands
from culm.cli.output import counted, print_json, print_table
from culm.errors import ConfigError, NetworkError, StoreMissing
from culm.negentropy import Split, Storage, even, newest_listed
from culm.node.negentropy.comparison import Differences, compare, compare_records, compare_sets, compare_stores
from culm.node.network.transport import connect
from culm.node.network.urls import PeerUrl
from culm.store import ReadableStore, SQLiteStore, ToolStore, View
from culm.store.exchange import transfer
from culm.store.recordindex.manifest import is_index
from culm.types import Log
from culm.wire.places import log_text

if TYPE_CHECKING:
    from culm.store.recordindex import IndexStorage

_SPLITS: dict[str, Split] = {"even": even, "newest": newest_listed}
_OF_ENTRIES = (View.ENTRIES, View.PAYLOADS)


def register(commands: Commands) -> None:
    """Add the commands of this module."""
    reconcile = commands.add(
        "reconcile", _reconcile, "show, log by log, which entries and payloads one store has and another lacks"
    )
    reconcile.add_argument("a", metavar="STORE_A", help="a home, a store's file, or a record index's folder")
    reconcile.add_argument(
        "b", metavar="STORE_B", help="another store or index, or tcp://HOST:PORT of a negentropy:// listener"
    )
    reconcile.add_argument("--apply", action="store_true", help="also copy what is missing, both ways")
    reconcile.add_argument(
        "--split",
        choices=sorted(_SPLITS),
        default="even",
        help="how to divide ranges; 'newest' lists the newest 32 records at once (default: even)",
    )


def _open(name: str, *, read_only: bool = True) -> ToolStore:
    path = Path(name) / "store.db" if Path(name).is_dir() else Path(name)
    if not path.exists():
        raise StoreMissing(f"{path} does not exist; name a home, a store file or a record index")
    return SQLiteStore(path, read_only=read_only)


def _reconcile(arguments: argparse.Namespace) -> int:
    if is_index(Path(arguments.a)) or is_index(Path(arguments.b)):
        return _with_index(arguments)
    if "://" in arguments.b:
        return _with_peer(arguments)
    split = _SPLITS[arguments.split]
    with (
        _open(arguments.a, read_only=not arguments.apply) as a,
        _open(arguments.b, read_only=not arguments.apply) as b,
    ):
        found = {view: compare_stores(a, b, view, split) for view in View}
        lacking = _Lacking()
        for view in _OF_ENTRIES:
            lacking.count("b", view, a, found[view].have)
            lacking.count("a", view, b, found[view].need)
        lacking.heads(a.logs_of(found[View.HEADS].have) + b.logs_of(found[View.HEADS].need))
        applied = 0
        if arguments.apply:
            applied += _apply(b, a, [found[view].need for view in _OF_ENTRIES])
            applied += _apply(a, b, [found[view].have for view in _OF_ENTRIES])
    if arguments.json:
        print_json({"views": _costs(found), "logs": lacking.rows(("a", "b")), "applied": applied})
        return 0
    lacking.print(("a", "b"), "the stores have the same entries and payloads")
    _print_costs(found)
    if arguments.apply:
        print(f"copied {applied} entries and payloads")
    return 0


def _apply(source: ReadableStore, target: ToolStore, ids: list[list[bytes]]) -> int:
    report = transfer(source, target, source.entries_of({identity for some in ids for identity in some}))
    return report.added + report.payloads


# -- a peer ---------------------------------------------------------------------------------------------------------


def _with_peer(arguments: argparse.Namespace) -> int:
    url = PeerUrl.parse(arguments.b, schemes=("tcp",))
    if arguments.apply:
        raise ConfigError("--apply works with two stores only; to fetch from a peer, use: culm sync")
    with _open(arguments.a) as store:
        found = asyncio.run(_compare_with(store, url, _SPLITS[arguments.split]))
        lacking = _Lacking()
        for view, differences in found.items():
            if view in _OF_ENTRIES:
                lacking.count("peer", view, store, differences.have)
            else:
                lacking.heads(store.logs_of(differences.have))
    we_lack = {view.value: len(differences.need) for view, differences in found.items()}
    if arguments.json:
        ids = {view.value: [identity.hex() for identity in differences.need] for view, differences in found.items()}
        rows = lacking.rows(("peer",))
        print_json({"views": _costs(found), "logs": rows, "store_lacks": we_lack, "store_lacks_ids": ids})
        return 0
    lacking.print(("peer",), "the peer has everything that the store has")
    lacked = {"entry": we_lack.get(View.ENTRIES.value), "payload": we_lack.get(View.PAYLOADS.value)}
    counts = [counted(count, noun) for noun, count in lacked.items() if count]
    print(f"the store lacks {' and '.join(counts) or 'nothing'} that the peer has")
    _print_costs(found)
    return 0


async def _compare_with(store: ToolStore, url: PeerUrl, split: Split) -> dict[View, Differences]:
    reader, writer = await connect(url)
    found: dict[View, Differences] = {}
    with closing(writer):
        for view in View:
            differences = await compare(store, view, (reader, writer), split=split)
            if differences is None:
                break  # The peer is another program, which offers only entries.
            found[view] = differences
    return found


async def ask_peer(records: Storage, view: View, url: PeerUrl, split: Split = even) -> Differences:
    """Compare a set of records with a peer's; ``NetworkError`` if the peer cannot be reached or lacks this view."""
    reader, writer = await connect(url)
    with closing(writer):
        found = await compare_records(records, view, (reader, writer), split=split)
    if found is None:
        raise NetworkError(f"{url} does not offer its {view.value} for comparison")
    return found


# -- record indexes -------------------------------------------------------------------------------------------------


def _with_index(arguments: argparse.Namespace) -> int:
    """Compare the one view that the index has. An index knows only ids; a store also knows which entries they are."""
    if arguments.apply:
        raise ConfigError("--apply works with two stores only: a record index holds no entries to copy")
    from culm.store.recordindex import IndexStorage  # noqa: PLC0415 - numpy takes long to load

    split = _SPLITS[arguments.split]
    url = PeerUrl.parse(arguments.b, schemes=("tcp",)) if "://" in arguments.b else None
    with ExitStack() as stack:
        sides: list[ToolStore | IndexStorage] = [
            stack.enter_context(IndexStorage(name)) if is_index(Path(name)) else stack.enter_context(_open(name))
            for name in ((arguments.a, arguments.b) if url is None else (arguments.a,))
        ]
        indexes = [side for side in sides if isinstance(side, IndexStorage)]
        view, *others = (index.view for index in indexes)
        if others not in ([], [view]):
            raise ConfigError(f"{arguments.b} indexes {others[0].value}, but {view.value} are to be compared")
        sets = [
            side if isinstance(side, IndexStorage) else stack.enter_context(side.record_set(view)) for side in sides
        ]
        if url is not None:
            found = asyncio.run(ask_peer(sets[0], view, url, split))
        elif others:
            found = _compare_indexes(indexes)
        else:
            found = compare_sets(sets[0], sets[1], split)
        lacking = _Lacking()
        for other, side, ids in zip(("b", "a"), sides, (found.have, found.need), strict=False):
            if not isinstance(side, IndexStorage):
                lacking.count(other, view, side, ids)
    if arguments.json:
        counts = {"a_lacks": len(found.need), "b_lacks": len(found.have)}
        hexes = {"a_lacks_ids": [one.hex() for one in found.need], "b_lacks_ids": [one.hex() for one in found.have]}
        print_json({"views": _costs({view: found}), "logs": lacking.rows(("a", "b")), **counts, **hexes})
        return 0
    if lacking.rows(()):
        lacking.print(("a", "b"), "")
    names = arguments.a, arguments.b
    for lacks, has, count in ((*names, len(found.need)), (*reversed(names), len(found.have))):
        print(f"{lacks} lacks {count} {view.value} that {has} has")
    _print_costs({view: found})
    return 0


def _compare_indexes(indexes: list[IndexStorage]) -> Differences:
    """Compare two indexes directly, without a protocol: no rounds, and the bytes are those read from the files."""
    from culm.store.recordindex.compare import compare as compare_indexes  # noqa: PLC0415

    ids: dict[str, list[bytes]] = {"a": [], "b": []}
    for side, _, identity in compare_indexes(*indexes):
        ids[side].append(identity)
    return Differences(ids["a"], ids["b"], 0, sum(index.bytes_read for index in indexes))


# -- what is shown --------------------------------------------------------------------------------------------------


class _Lacking:
    """Counts, log by log, of what each side lacks."""

    def __init__(self) -> None:
        self._logs: dict[Log, Counter[str]] = {}

    def count(self, side: str, view: View, holder: ReadableStore, ids: list[bytes]) -> None:
        """Note that ``side`` lacks the entries with these ids. ``holder`` has them, and so knows their logs."""
        for stored in holder.entries_of(set(ids)):
            self._logs.setdefault(stored.entry.log, Counter())[f"{side}_lacks_{view.value}"] += 1

    def heads(self, logs: list[Log]) -> None:
        """Note that the sides have different newest entries of these logs."""
        for log in logs:
            self._logs.setdefault(log, Counter())["heads_differ"] = 1

    def rows(self, sides: tuple[str, ...]) -> list[dict[str, Any]]:
        """A row for each log that differs, ordered by log."""
        names = [f"{side}_lacks_{view.value}" for side in sides for view in _OF_ENTRIES]
        return [
            {
                "log": log_text(log),
                **{name: self._logs[log][name] for name in names},
                "heads_differ": bool(self._logs[log]["heads_differ"]),
            }
            for log in sorted(self._logs)
        ]

    def print(self, sides: tuple[str, ...], nothing: str) -> None:
        """Print a table, or ``nothing`` if no log differs."""
        rows = self.rows(sides)
        if not rows:
            print(nothing)
            return
        names = [name.replace("_", " ") for name in rows[0]]
        shown = [(*list(row.values())[:-1], "yes" if row["heads_differ"] else "no") for row in rows]
        print_table(names, shown, right=names[1:-1])


def _costs(found: dict[View, Differences]) -> dict[str, dict[str, int]]:
    return {view.value: {"rounds": cost.rounds, "bytes": cost.bytes} for view, cost in found.items()}


def _print_costs(found: dict[View, Differences]) -> None:
    for name, cost in _costs(found).items():
        print(f"{name}: {cost['rounds']} rounds, {cost['bytes']} bytes")
