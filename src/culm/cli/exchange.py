"""``culm export`` and ``culm import``: logs as files, to carry them without a network.

There are two formats (``culm.store.files``). The plain one is that of the deployed Bushbaby peer; it has only entries
with their payload. A bundle also has entries without payload, fork proofs, and a checksum that shows a truncated file.
"""

import argparse
import sys
from functools import partial
from typing import BinaryIO

from culm.cli.arguments import named
from culm.cli.command import Commands
from culm.cli.damage import count_as_missing
from culm.cli.nodeoptions import add_clump, clump_text, settings_of
from culm.cli.output import counted, note, open_input, open_output, print_json
from culm.cli.progress import progress_bar
from culm.errors import ConfigError, NotHeld, PayloadDamaged, Place, StoreError
from culm.node.home import Home
from culm.node.names import Names
from culm.store import ImportReport, ReadableStore
from culm.store.entries import Damaged
from culm.store.exchange import Importer, export_bundle, export_plain
from culm.types import Log
from culm.wire.places import author_text, parse_log, place_text

_MOST_DAMAGED = 100_000  # Payloads that were found damaged before and are named; each is a line of text.
_SHOWN_REFUSALS = 20  # A damaged file can have thousands, all for the same reason.


def register(commands: Commands) -> None:
    """Add the commands of this module."""
    export = commands.add("export", _export)
    export.add_argument(
        "logs", metavar="AUTHOR/LOG", nargs="*", type=partial(named, _log), help="the logs to export (default: all)"
    )
    export.add_argument(
        "-o", "--output", metavar="FILE", help="where to write; - is stdout (the default unless stdout is a terminal)"
    )
    export.add_argument(
        "--bundle",
        action="store_true",
        help="write the framed format, which also holds entries without payload, fork proofs and a checksum",
    )
    take = commands.add("import", _import)
    take.add_argument("file", metavar="FILE", help="the file; - is stdin")
    add_clump(take)


def _log(text: str) -> Log:
    """A log to export. Other programs take a file's name in this place, so the error says where it belongs."""
    try:
        return parse_log(text)
    except ConfigError as error:
        raise ConfigError(str(error) if "/" in text else f"{error}; to write to a file: -o {text}") from None


def _export(arguments: argparse.Namespace) -> int:
    output = arguments.output
    if output is None and sys.stdout.isatty():
        raise ConfigError("not writing binary data to a terminal: give -o FILE (or -o - to do it all the same)")
    home = Home.find(arguments.home)
    names = home.names()
    damaged: list[tuple[Place, StoreError]] = []
    with home.store(read_only=True) as store:
        held = {(log.author, log.log_id) for log in store.logs()}
        logs = arguments.logs or sorted(held)
        for log in logs:
            if log not in held:
                raise NotHeld(f"the store has no entries of {names.log(log)}")
        before = _found_before(store, logs)
        with open_output(output or "-") as stream:
            count = _write(arguments, names, store, logs, stream, lambda *damage: damaged.append(damage))
    damaged += before
    for place, error in damaged:
        note(f"left out {names.place(place)}: {error}")
    count_as_missing(home, (error for _, error in damaged if isinstance(error, PayloadDamaged)))
    if arguments.json and output not in (None, "-"):
        print_json({"entries": count, "logs": len(logs), "damaged": [place_text(place) for place, _ in damaged]})
    else:
        note(f"exported {counted(count, 'entry')} of {counted(len(logs), 'log')}")
    return 1 if damaged else 0


def _found_before(store: ReadableStore, logs: list[Log]) -> list[tuple[Place, StoreError]]:
    """Payloads that were found damaged earlier and have not come again: an export of these logs lacks them, too."""
    reason = "its payload was damaged on the disk, and has not come again; sync with a peer that has it, or forget it"
    named = set(logs)
    lacking = sorted(stored.entry.place for stored in store.damaged_payloads(_MOST_DAMAGED))
    return [(place, StoreError(reason)) for place in lacking if (place.author, place.log_id) in named]


def _write(
    arguments: argparse.Namespace,
    names: Names,
    store: ReadableStore,
    logs: list[Log],
    stream: BinaryIO,
    damaged: Damaged,
) -> int:
    if arguments.bundle:
        return export_bundle(store, logs, stream, damaged)
    left_out: list[Place] = []
    count = export_plain(store, logs, stream, left_out.append, damaged)
    if left_out:
        note(
            f"left out {counted(len(left_out), 'entry')}, the first {names.place(left_out[0])}: the store does not have"
            " the payload, and this format cannot hold an entry without it; use --bundle to include such entries"
        )
    return count


def _import(arguments: argparse.Namespace) -> int:
    home, clump = Home.find(arguments.home), settings_of(arguments).clump
    with home.store() as store, open_input(arguments.file) as stream, progress_bar("importing") as bar:
        store.receive_in(clump or b"", home.own_authors(), only_new=clump is None)
        before = len(store.clumps())
        report = Importer(store, bar.update).run(stream)
        marked = len(store.clumps()) - before
    if arguments.json:
        print_json(
            {name: getattr(report, name) for name in ("added", "known", "waiting", "payloads")}
            | {
                "refused": [
                    {"place": place_text(place) if place else None, "reason": str(error)}
                    for place, error in report.refused
                ],
                "forks": [
                    {"author": author_text(proof.author), "log_id": proof.log_id, "position": proof.position}
                    for proof in report.forks
                ],
            }
        )
    else:
        _print_report(report, home.names())
        if marked:
            note(
                f"shared {clump_text(clump or b'')} only: {counted(marked, 'new log')} of others;"
                " culm share AUTHOR/LOG --clump NAME adds a clump"
            )
    return 1 if report.refused or report.forks else 0


def _print_report(report: ImportReport, names: Names) -> None:
    print(
        f"added {counted(report.added, 'entry')} and {counted(report.payloads, 'payload')};"
        f" {report.known} known, {report.waiting} waiting for entries before them, {len(report.refused)} refused"
    )
    for place, error in report.refused[:_SHOWN_REFUSALS]:
        where = names.place(place) if place else "the file"
        note(f"refused {where}: {error}")
    if len(report.refused) > _SHOWN_REFUSALS:
        note(f"... and {len(report.refused) - _SHOWN_REFUSALS} more (--json lists all)")
    for proof in report.forks[:_SHOWN_REFUSALS]:
        note(f"fork in {names.log((proof.author, proof.log_id))} at {proof.position}: {proof.explain()}")
