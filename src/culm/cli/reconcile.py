"""``culm reconcile``: what two stores lack of each other's."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from culm.cli.output import print_json, print_table
from culm.cli.places import log_text
from culm.errors import StoreMissing
from culm.store import SQLiteStore, View
from culm.store.exchange import transfer

if TYPE_CHECKING:
    import argparse

    from culm.cli.command import Commands
    from culm.store import Log

_SIDES = ("a", "b")
_COLUMNS = tuple(f"{side}_lacks_{view.name.lower()}" for side in _SIDES for view in View)


def register(commands: Commands) -> None:
    """Add the commands of this module."""
    reconcile = commands.add("reconcile", _reconcile, "say what two stores lack of each other's, log by log")
    reconcile.add_argument("a", metavar="STORE_A", help="a home, or a store's file")
    reconcile.add_argument("b", metavar="STORE_B")
    reconcile.add_argument("--apply", action="store_true", help="also move what is missing, both ways")


def _open(name: str, *, read_only: bool) -> SQLiteStore:
    path = Path(name) / "store.db" if Path(name).is_dir() else Path(name)
    if not path.exists():
        raise StoreMissing(f"{path}: there is no store")
    return SQLiteStore(path, read_only=read_only)


def _reconcile(arguments: argparse.Namespace) -> int:
    with (
        _open(arguments.a, read_only=not arguments.apply) as a,
        _open(arguments.b, read_only=not arguments.apply) as b,
    ):
        lacking: dict[Log, Counter[str]] = {}
        views: dict[str, dict[str, int]] = {}
        wanted: tuple[set[bytes], set[bytes]] = (set(), set())
        for view in View:
            b_lacks, a_lacks, views[view.name.lower()] = _compare(a, b, view)
            for side, ids, holder in (("a", a_lacks, b), ("b", b_lacks, a)):
                for stored in holder.entries_of(ids):
                    lacking.setdefault(stored.entry.log, Counter())[f"{side}_lacks_{view.name.lower()}"] += 1
            wanted[0].update(a_lacks)
            wanted[1].update(b_lacks)
        applied = 0
        if arguments.apply:
            applied += _apply(b, a, wanted[0]) + _apply(a, b, wanted[1])
    rows = [{"log": log_text(log), **{name: lacking[log][name] for name in _COLUMNS}} for log in sorted(lacking)]
    if arguments.json:
        print_json({"views": views, "logs": rows, "applied": applied})
        return 0
    if rows:
        names = ("log", *(name.replace("_", " ") for name in _COLUMNS))
        print_table(names, [tuple(row.values()) for row in rows], right=names[1:])
    else:
        print("the stores hold the same")
    for name, cost in views.items():
        print(f"{name}: {cost['rounds']} rounds, {cost['bytes']} bytes")
    if arguments.apply:
        print(f"moved {applied} entries and payloads")
    return 0


def _compare(a: SQLiteStore, b: SQLiteStore, view: View) -> tuple[set[bytes], set[bytes], dict[str, int]]:
    """The record ids that b lacks and that a lacks, and what a session between them costs."""
    from culm.negentropy import Negentropy  # noqa: PLC0415 - numpy is loaded only by those who need it

    initiator, responder = Negentropy(a.record_set(view)), Negentropy(b.record_set(view))
    message: bytes | None = initiator.initiate()
    rounds = size = 0
    while message is not None:
        answer = responder.reconcile(message)
        if answer is None:
            break
        rounds += 1
        size += len(message) + len(answer)
        message = initiator.reconcile(answer)
    return set(initiator.have), set(initiator.need), {"rounds": rounds, "bytes": size}


def _apply(source: SQLiteStore, target: SQLiteStore, ids: set[bytes]) -> int:
    report = transfer(source, target, source.entries_of(ids))
    return report.added + report.payloads
