"""``culm reconcile``: what one store has and another lacks. Either can be a record index, and one of them a peer.

The two are compared by negentropy (``culm.negentropy``), as nodes do it, in three views: entries, payloads, and heads
(the newest entry of each log). Two local stores could be compared entry by entry instead. But the command also shows
what the comparison costs, in rounds and bytes, which is what people want to know before they connect two nodes.
"""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from culm.cli.command import Commands
from culm.cli.nodeoptions import add_clump, settings_of
from culm.cli.output import counted, print_json, print_table
from culm.errors import ConfigError, NetworkError, StoreMissing
from culm.negentropy import Split, Storage, even, newest_listed, sparing
from culm.node.config import NodeConfig
from culm.node.home import Home
from culm.node.interests.missing import EVERYTHING
from culm.node.interests.policy import Policy
from culm.node.negentropy.comparison import (
    Differences,
    ask_logs,
    begin_transfer,
    compare,
    compare_records,
    compare_sets,
    compare_stores,
)
from culm.node.network.transport import Streams, connect
from culm.node.network.urls import PeerUrl, is_address
from culm.node.sessions.session import Purpose
from culm.node.storage.source import StoreSource
from culm.node.sync import SyncSummary, sync
from culm.store import ReadableStore, SQLiteStore, ToolStore, View
from culm.store.exchange import transfer
from culm.store.recordindex.manifest import is_index
from culm.types import Log
from culm.wire.places import log_text

if TYPE_CHECKING:
    from culm.store.recordindex import IndexStorage

_SPLITS: dict[str, Split] = {"even": even, "newest": newest_listed, "sparing": sparing}
_OF_ENTRIES = (View.ENTRIES, View.PAYLOADS)


def register(commands: Commands) -> None:
    """Add the commands of this module."""
    reconcile = commands.add("reconcile", _reconcile)
    reconcile.add_argument(
        "a", metavar="STORE_A", help="a home, a store's file, a record index's folder, or negentropy://HOST:PORT"
    )
    reconcile.add_argument("b", metavar="STORE_B", help="another one; at most one of the two is an address")
    reconcile.add_argument(
        "--apply",
        action="store_true",
        help="also copy what is missing, both ways; a peer takes part if it listens at intervals://, too",
    )
    add_clump(reconcile)
    reconcile.add_argument(
        "--split",
        choices=sorted(_SPLITS),
        default="even",
        help="how to divide ranges; 'newest' lists the newest 32 records at once (default: even)",
    )


def _open(name: str, *, read_only: bool = True) -> ToolStore:
    path = Path(name) / "store.db" if Path(name).is_dir() else Path(name)
    if not path.exists():
        raise StoreMissing(
            f"{name} does not exist; name a home, a store file, a record index or negentropy://HOST:PORT"
        )
    return SQLiteStore(path, read_only=read_only)


def _reconcile(arguments: argparse.Namespace) -> int:
    peers = [is_address(name) for name in (arguments.a, arguments.b)]
    if all(peers):
        raise ConfigError(
            "at most one side can be an address: name a home, a store file or a record index as the other"
        )
    if is_index(Path(arguments.a)) or is_index(Path(arguments.b)):
        return _with_index(arguments)
    if any(peers):
        return _with_peer(arguments, *((arguments.b, arguments.a) if peers[0] else (arguments.a, arguments.b)))
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
    lacking.print(arguments, ("a", "b"), "the stores have the same entries and payloads")
    _print_costs(found)
    if arguments.apply:
        print(f"copied {applied} entries and payloads")
    return 0


def _apply(source: ReadableStore, target: ToolStore, ids: list[list[bytes]]) -> int:
    target.adopt_clumps(source.clumps())
    report = transfer(source, target, source.entries_of({identity for some in ids for identity in some}))
    return report.added + report.payloads


# -- a peer ---------------------------------------------------------------------------------------------------------


def peer_address(name: str) -> PeerUrl:
    """The address of a listener to compare with. ``tcp://`` says the same as ``negentropy://``."""
    return PeerUrl.parse(name, schemes=("negentropy", "tcp"))


def _with_peer(arguments: argparse.Namespace, name: str, address: str) -> int:
    url = peer_address(address)
    config = _config_of(arguments, name)
    with (
        _open(name, read_only=not arguments.apply) as store,
        closing(StoreSource(store, config.policy, config.clump)) as source,
    ):
        found, logs = asyncio.run(_compare_with(store, url, source.policy, arguments))
        lacking = _Lacking()
        for view, differences in found.items():
            if view in _OF_ENTRIES:
                lacking.count("peer", view, store, differences.have)
            else:
                lacking.heads(store.logs_of(differences.have))
        we_lack = {view.value: len(differences.need) for view, differences in found.items()}
        if not arguments.json:
            lacking.print(arguments, ("peer",), "the peer has everything that the store has")
            lacked = {"entry": we_lack.get(View.ENTRIES.value), "payload": we_lack.get(View.PAYLOADS.value)}
            counts = [counted(count, noun) for noun, count in lacked.items() if count]
            print(f"the store lacks {' and '.join(counts) or 'nothing'} that the peer has")
            if held := sum(1 for _ in store.entries_of(set(found[View.ENTRIES].need))):
                print(f"  but holds {counted(held, 'entry')} of that outside of this clump: see culm logs, culm share")
            _print_costs(found)
        moved = asyncio.run(_move(store, url, config, logs)) if logs else SyncSummary()
    if arguments.json:
        ids = {view.value: [identity.hex() for identity in differences.need] for view, differences in found.items()}
        counted_moves = {"received": moved.entries_received, "sent": moved.entries_sent}
        seen = {"views": _costs(found), "logs": lacking.rows(("peer",)), "store_lacks": we_lack, "store_lacks_ids": ids}
        print_json({**seen, "applied": counted_moves} if arguments.apply else seen)
    elif arguments.apply:
        print(f"received {counted(moved.entries_received, 'entry')}, sent {moved.entries_sent}")
    return 0


def _config_of(arguments: argparse.Namespace, name: str) -> NodeConfig:
    """What the owner of a home shares and takes, in a clump; a store's file alone has no lists, and takes all."""
    home, is_home = Home(Path(name)), Path(name).is_dir()
    clump = settings_of(arguments, home if is_home else Home.find(arguments.home)).clump or b""
    if not is_home:
        return NodeConfig(clump)
    return NodeConfig(clump, policy=replace(home.policy_file.load(clump), own=home.own_authors()))


async def _compare_with(
    store: ToolStore, url: PeerUrl, policy: Policy, arguments: argparse.Namespace
) -> tuple[dict[View, Differences], list[Log]]:
    """What differs in each view, and with ``--apply`` the logs in which it does."""
    split = _SPLITS[arguments.split]
    streams = await connect(url)
    found: dict[View, Differences] = {}
    with closing(streams[1]):
        for view in View:
            differences = await compare(store, view, streams, **policy.shown, split=split)
            if differences is None:
                break  # The peer is another program, which offers only entries.
            found[view] = differences
        if not arguments.apply:
            return found, []
        if View.HEADS not in found:
            raise NetworkError(f"{url} is another program than Culm: it compares entries, and moves nothing")
        heads = found[View.HEADS]
        theirs = await ask_logs(heads.need, streams) if heads.need else []
    return found, [log for log in dict.fromkeys(store.logs_of(heads.have) + theirs) if policy.admits_author(log[0])]


async def _move(store: ToolStore, url: PeerUrl, config: NodeConfig, logs: list[Log]) -> SyncSummary:
    """Ask the peer for the logs that differ, over a connection of their own. It asks for them in turn."""

    async def dial(_: PeerUrl) -> Streams:
        streams = await connect(url)
        try:
            await begin_transfer(streams)
        except BaseException:
            streams[1].close()
            raise
        return streams

    purpose = Purpose(is_live=False, mirrors=False, logs=tuple(logs), interest=lambda _: EVERYTHING)
    return await sync(None, config, store, replace(url, scheme="intervals"), purpose, dial=dial)


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

    names = [arguments.a, arguments.b]
    with ExitStack() as stack:
        sides: list[ToolStore | IndexStorage] = [
            stack.enter_context(IndexStorage(name)) if is_index(Path(name)) else stack.enter_context(_open(name))
            for name in names
            if not is_address(name)
        ]
        indexes = [side for side in sides if isinstance(side, IndexStorage)]
        view, *others = (index.view for index in indexes)
        if others not in ([], [view]):
            raise ConfigError(f"{arguments.b} indexes {others[0].value}, but {view.value} are to be compared")
        sets = [
            side if isinstance(side, IndexStorage) else stack.enter_context(side.record_set(view)) for side in sides
        ]
        if len(sides) < len(names):
            found = _with_peers_records(sets[0], view, names, _SPLITS[arguments.split])
        elif others:
            found = _compare_indexes(indexes)
        else:
            found = compare_sets(sets[0], sets[1], _SPLITS[arguments.split])
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
        lacking.print(arguments, ("a", "b"), "")
    for lacks, has, count in ((*names, len(found.need)), (*reversed(names), len(found.have))):
        print(f"{lacks} lacks {count} {view.value} that {has} has")
    _print_costs({view: found})
    return 0


def _with_peers_records(records: Storage, view: View, names: list[str], split: Split) -> Differences:
    """What differs between an index and a peer, seen from the first of the two names."""
    is_first = is_address(names[0])
    found = asyncio.run(ask_peer(records, view, peer_address(names[0] if is_first else names[1]), split))
    return replace(found, have=found.need, need=found.have) if is_first else found


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

    def print(self, arguments: argparse.Namespace, sides: tuple[str, ...], nothing: str) -> None:
        """Print a table, or ``nothing`` if no log differs."""
        rows = self.rows(sides)
        if not rows:
            print(nothing)
            return
        names = Home.find(arguments.home).names()
        columns = [name.replace("_", " ") for name in rows[0]]
        shown = [
            (names.log(log), *list(row.values())[1:-1], "yes" if row["heads_differ"] else "no")
            for log, row in zip(sorted(self._logs), rows, strict=True)
        ]
        print_table(arguments, columns, shown, right=columns[1:-1])


def _costs(found: dict[View, Differences]) -> dict[str, dict[str, int]]:
    return {view.value: {"rounds": cost.rounds, "bytes": cost.bytes} for view, cost in found.items()}


def _print_costs(found: dict[View, Differences]) -> None:
    for name, cost in _costs(found).items():
        print(f"{name}: {counted(cost['rounds'], 'round')}, {counted(cost['bytes'], 'byte')}")
