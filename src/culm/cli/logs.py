"""``culm append``, ``logs``, ``show``, ``verify``, ``forget``: commands that use only the local store."""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from culm.bamboo import lipmaa
from culm.bamboo.decimal import size_text
from culm.cli.arguments import log_or_place_type, log_type, number, place_type, text_type
from culm.cli.command import Commands
from culm.cli.damage import count_as_missing
from culm.cli.identity import ask_passphrase
from culm.cli.lines import append_lines
from culm.cli.output import counted, note, open_input, print_json, print_result, print_table
from culm.cli.progress import progress_bar, with_progress
from culm.cli.sealing import content, sealer_for
from culm.cli.tail import has_sealed
from culm.errors import ConfigError, NotHeld, PayloadDamaged, Place
from culm.node.home import Home
from culm.store import LogSummary, ReadableStore, State, StoredEntry
from culm.types import Log
from culm.wire.places import (
    author_text,
    clump_name,
    place_text,
)

_PIECE = 64 * 1024  # bytes of a payload read at once, so that a large file is never in memory as a whole
# Of a log in a list as JSON.
_FIELDS = ("log_id", "newest", "entries", "payloads", "certified", "waiting", "invalid", "forked_at", "ended")


def register(commands: Commands) -> None:
    """Add the commands of this module."""
    append = commands.add("append", _append)
    append.add_argument("log_id", metavar="LOG_ID", type=number("log id", 0), help="number of the log, 0 or more")
    append.add_argument("file", metavar="FILE", nargs="?", help="file with the payload; - is stdin (the default)")
    append.add_argument("--text", help="use this text as the payload")
    append.add_argument(
        "--lines", action="store_true", help="publish an entry for each line of FILE or stdin, also of a pipe"
    )
    append.add_argument(
        "--identity", metavar="NAME", help="identity that signs the entry (default: the default identity)"
    )
    append.add_argument(
        "--for",
        dest="readers",
        metavar="READER",
        type=text_type,
        action="append",
        help="seal the payload, so that only readers can read it: an author, an age key or a group (AUTHOR/LOG); can be"
        " repeated. You stay a reader yourself",
    )
    append.add_argument("--not-for-me", action="store_true", help="with --for: do not add yourself to the readers")
    append.add_argument("--end", action="store_true", help="make this the last entry of the log, for ever")
    append.add_argument(
        "--continue-here",
        action="store_true",
        help="append to this log although the home was restored or the identity imported, because you know that nothing"
        " newer exists anywhere",
    )
    commands.add("logs", _logs)
    show = commands.add("show", _show)
    show.add_argument("place", metavar="AUTHOR/LOG[/SEQ]", type=log_or_place_type, help="a log, or one entry of it")
    show.add_argument("--payload", action="store_true", help="write the entry's payload to stdout; a sealed one opened")
    show.add_argument("--raw", action="store_true", help="with --payload: leave a sealed payload as it is")
    show.add_argument(
        "--key", metavar="FILE", action="append", help="with --payload: also try the age keys of this file"
    )
    verify = commands.add("verify", _verify)
    verify.add_argument(
        "log", metavar="AUTHOR/LOG", nargs="?", type=log_type, help="check only this log (default: all logs)"
    )
    forget = commands.add("forget", _forget)
    forget.add_argument("place", metavar="AUTHOR/LOG/SEQ", type=place_type, help="the entry whose payload to delete")


def _append(arguments: argparse.Namespace) -> int:
    if arguments.file is not None and arguments.text is not None:
        raise ConfigError("give a FILE or --text, not both")
    if arguments.file is None and arguments.text is None and not arguments.end and sys.stdin.isatty():
        raise ConfigError("nothing to append: give a FILE, --text TEXT, or - for stdin")
    if arguments.lines:
        if arguments.text is not None or arguments.end:
            raise ConfigError("--lines takes a FILE or stdin, not --text or --end: end the log with another append")
        return append_lines(arguments)
    home = Home.find(arguments.home)
    with home.store() as store:
        identity = home.identity(arguments.identity, ask_passphrase)
        sealer = sealer_for(store, identity, arguments)
        payload = _payload(arguments)
        entry = store.append(
            identity,
            arguments.log_id,
            payload if sealer is None else sealer.pieces(payload),
            is_end=arguments.end,
            continue_here=arguments.continue_here,
        )
    place = place_text(entry.place)
    shown = {
        "place": place,
        "author": author_text(entry.author),
        "log_id": entry.log_id,
        "seq": entry.seq,
        "size": entry.size,
        "hash": entry.hash.hex(),
    }
    print_result(arguments, shown, place)
    return 0


def _shared_in(clumps: list[str] | None, unshared: list[str]) -> str:
    """The clumps in which a log is served; None: in every one but the unshared ones."""
    if clumps is None:
        return f"(every) but {', '.join(unshared)}" if unshared else "(every)"
    return ", ".join(name for name in clumps if name not in unshared) or "(not shared)"


def _payload(arguments: argparse.Namespace) -> Iterator[bytes]:
    if arguments.text is not None:
        yield arguments.text.encode("utf-8", errors="surrogateescape")
    elif arguments.file is not None or not arguments.end:
        with open_input(arguments.file or "-") as file:
            yield from with_progress(iter(partial(file.read, _PIECE), b""), "appending")


def _logs(arguments: argparse.Namespace) -> int:
    home = Home.find(arguments.home)
    with home.store(read_only=True) as store:
        summaries = list(store.logs())
        clumps = {log: sorted(map(clump_name, marks)) for log, marks in store.clumps().items()}
    names = home.names()
    unshared = {log: sorted(map(clump_name, marks)) for log, marks in home.policy_file.unshared().items()}
    if arguments.json:
        print_json(
            [
                {"author": author_text(log.author)}
                | {name: getattr(log, name) for name in _FIELDS}
                | {"clumps": clumps.get(log.log), "unshared": unshared.get(log.log, [])}
                for log in summaries
            ]
        )
    elif summaries:
        rows = [
            (
                names.log(log.log),
                log.newest,
                log.entries,
                log.payloads,
                _shared_in(clumps.get(log.log), unshared.get(log.log, [])),
                _remark(log),
            )
            for log in summaries
        ]
        print_table(
            arguments,
            ("log", "newest", "entries", "payloads", "clumps", ""),
            rows,
            right=("newest", "entries", "payloads"),
        )
    else:
        note("no logs yet; publish with: culm append LOG_ID FILE")
    return 0


def _remark(log: LogSummary) -> str:
    remarks = []
    if log.forked_at is not None:
        remarks.append(f"forked at {log.forked_at}")
    if log.certified != log.entries:
        remarks.append(f"{log.certified} certified")
    if log.waiting:
        remarks.append(f"{log.waiting} waiting")
    if log.ended:
        remarks.append("ended")
    return ", ".join(remarks)


def _show(arguments: argparse.Namespace) -> int:
    log: Log
    log, seq = arguments.place
    if (arguments.raw or arguments.key) and not arguments.payload:
        raise ConfigError("--raw and --key work with --payload only")
    home = Home.find(arguments.home)
    with home.store(read_only=True) as store:
        if seq is not None:
            return _show_entry(arguments, home, store, Place(*log, seq))
        if arguments.payload:
            raise ConfigError("--payload needs one entry: AUTHOR/LOG/SEQ")
        return _show_log(arguments, home, store, log)


def _show_log(arguments: argparse.Namespace, home: Home, store: ReadableStore, log: Log) -> int:
    found = [_described(stored) for stored in store.entries(log, states=State)]
    if not found:
        raise NotHeld(f"the store has no entries of {home.names().log(log)}")
    if arguments.json:
        print_json(found)
        return 0
    rows = [
        (item["seq"], item["state"], size_text(item["size"]), item["payload"], item["hash"][4:20]) for item in found
    ]
    print_table(arguments, ("seq", "state", "size", "payload", "hash"), rows, right=("seq", "size"))
    for proof in store.fork_proofs(log):
        print(f"fork at {proof.position}: {proof.explain()}")
    return 0


def _described(stored: StoredEntry) -> dict[str, Any]:
    entry = stored.entry
    return {
        "place": place_text(entry.place),
        "seq": entry.seq,
        "state": stored.state.name.lower(),
        "size": entry.size,
        "payload": stored.payload_state.name.lower(),
        "payload_held": stored.payload_held,
        "hash": entry.hash.hex(),
        "payload_hash": entry.payload_hash.hex(),
        "backlink": entry.backlink.hex() if entry.backlink else None,
        "lipmaalink": entry.lipmaalink.hex() if entry.lipmaalink else None,
        "lipmaa": lipmaa(entry.seq),
        "end": entry.is_end,
    }


def _show_entry(arguments: argparse.Namespace, home: Home, store: ReadableStore, place: Place) -> int:
    stored, shown = store.get(place), home.names().place(place)
    if stored is None:
        raise NotHeld(f"the store does not have {shown}")
    if arguments.payload:
        if not stored.payload_complete:
            raise NotHeld(f"the store does not have the payload of {shown} ({stored.payload_state.name.lower()})")
        if stored.state is not State.VERIFIED:
            note(f"warning: do not trust this payload: the entry is {stored.state.name.lower()}")
        payload = store.payload(stored)
        try:
            sys.stdout.buffer.writelines(payload if arguments.raw else content(home, payload, arguments.key or ()))
        except PayloadDamaged as damage:
            count_as_missing(home, [damage])
            raise
        finally:
            sys.stdout.buffer.flush()
        return 0
    described = _described(stored) | {"sealed": has_sealed(store, stored)}
    rows = (described | {"place": shown}).items()
    print_result(arguments, described, *(f"{key.replace('_', ' '):13} {value}" for key, value in rows))
    return 0


def _verify(arguments: argparse.Namespace) -> int:
    from culm.cli.nodeoptions import settings_of  # noqa: PLC0415 - brings all protocols, and ``logs`` needs none

    log, home = arguments.log, Home.find(arguments.home)
    settings_of(arguments, home)  # They say how signatures are checked.
    names = home.names()
    with home.store(read_only=True) as store, progress_bar("verifying") as bar:
        report = store.verify(log, lambda entries: bar.update(entries, 0))
    if log is not None and not report.entries:
        raise NotHeld(f"the store has no entries of {names.log(log)}")
    damaged = [damage.place for damage in report.damaged]
    problems = [{"place": place_text(place) if place else None, "reason": reason} for place, reason in report.problems]
    certified = "" if report.certified == report.verified else f" ({report.certified} certified)"
    print_result(
        arguments,
        asdict(replace(report, damaged=[])) | {"problems": problems, "damaged": list(map(place_text, damaged))},
        f"{counted(report.entries, 'entry')}: {report.verified} verified{certified}, {report.unverified} unverified,"
        f" {report.invalid} invalid; {counted(report.payloads, 'payload')}; {counted(report.forks, 'forked log')}",
        *(f"{names.place(place) if place else None}: {reason}" for place, reason in report.problems),
    )
    count_as_missing(home, report.damaged)
    return 1 if problems or report.invalid or report.forks else 0


def _forget(arguments: argparse.Namespace) -> int:
    place, home = arguments.place, Home.find(arguments.home)
    with home.store() as store:
        freed = store.forget(place)
    where = home.names().place(place)
    shown = {"place": place_text(place), "freed": freed}
    print_result(arguments, shown, f"deleted the payload of {where} ({size_text(freed)})")
    return 0
