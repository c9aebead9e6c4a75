"""``culm reconcile``: what two stores lack of each other's, or a store and a peer."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from culm.cli.output import print_json, print_table
from culm.cli.places import log_text
from culm.errors import ConfigError, StoreMissing
from culm.negentropy import even, newest_listed
from culm.node.node import connect
from culm.node.reconcile import Differences, compare, compare_stores
from culm.node.urls import PeerUrl
from culm.store import SQLiteStore, View
from culm.store.exchange import transfer

if TYPE_CHECKING:
    import argparse

    from culm.cli.command import Commands
    from culm.negentropy import Split
    from culm.store import Log

_SPLITS: dict[str, Split] = {"even": even, "newest": newest_listed}
_OF_ENTRIES = (View.ENTRIES, View.PAYLOADS)


def register(commands: Commands) -> None:
    """Add the commands of this module."""
    reconcile = commands.add("reconcile", _reconcile, "say what two stores lack of each other's, log by log")
    reconcile.add_argument("a", metavar="STORE_A", help="a home, or a store's file")
    reconcile.add_argument("b", metavar="STORE_B", help="another one, or tcp://HOST:PORT of a negentropy:// listener")
    reconcile.add_argument("--apply", action="store_true", help="also move what is missing, both ways")
    reconcile.add_argument(
        "--split",
        choices=sorted(_SPLITS),
        default="even",
        help="how ranges are divided; 'newest' lists the newest 32 records at once (default: even)",
    )


def _open(name: str, *, read_only: bool) -> SQLiteStore:
    path = Path(name) / "store.db" if Path(name).is_dir() else Path(name)
    if not path.exists():
        raise StoreMissing(f"{path}: there is no store")
    return SQLiteStore(path, read_only=read_only)


def _reconcile(arguments: argparse.Namespace) -> int:
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
    lacking.print(("a", "b"), "the stores hold the same")
    _print_costs(found)
    if arguments.apply:
        print(f"moved {applied} entries and payloads")
    return 0


def _apply(source: SQLiteStore, target: SQLiteStore, ids: list[list[bytes]]) -> int:
    report = transfer(source, target, source.entries_of({identity for some in ids for identity in some}))
    return report.added + report.payloads


# -- a peer ---------------------------------------------------------------------------------------------------------


def _with_peer(arguments: argparse.Namespace) -> int:
    url = PeerUrl.parse(arguments.b, schemes=("tcp",))
    if arguments.apply:
        raise ConfigError("--apply is for two stores; to fetch from a peer, use: culm sync")
    with _open(arguments.a, read_only=True) as store:
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
    lacking.print(("peer",), "the peer lacks nothing that the store has")
    counts = [f"{count} {name}" for name, count in we_lack.items() if count and name != View.HEADS.value]
    print(f"the store lacks {' and '.join(counts) or 'nothing'} that the peer has")
    _print_costs(found)
    return 0


async def _compare_with(store: SQLiteStore, url: PeerUrl, split: Split) -> dict[View, Differences]:
    streams = await connect(url)
    found: dict[View, Differences] = {}
    try:
        for view in View:
            differences = await compare(store, view, streams, split=split)
            if differences is None:
                break  # a peer of another kind: it has entries only
            found[view] = differences
    finally:
        streams[1].close()
    return found


# -- what is shown --------------------------------------------------------------------------------------------------


class _Lacking:
    """What the sides lack, log by log."""

    def __init__(self) -> None:
        self._logs: dict[Log, Counter[str]] = {}

    def count(self, side: str, view: View, holder: SQLiteStore, ids: list[bytes]) -> None:
        """A side lacks the entries of these ids, which ``holder`` has."""
        for stored in holder.entries_of(set(ids)):
            self._logs.setdefault(stored.entry.log, Counter())[f"{side}_lacks_{view.value}"] += 1

    def heads(self, logs: list[Log]) -> None:
        """What is held of these logs differs."""
        for log in logs:
            self._logs.setdefault(log, Counter())["heads_differ"] = 1

    def rows(self, sides: tuple[str, ...]) -> list[dict[str, Any]]:
        """A row for each log."""
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
        """Show a table."""
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
