"""``culm tail``: the newest entries of a log as text, and with ``--follow`` each one that comes.

A payload is shown as one line of text, with everything escaped that is not printable: it comes from somebody else, and
escape sequences could change what the person sees. The position in the store's news is kept in memory, so that each
entry is shown once; an entry that a peer brings is shown when its payload is complete.
"""

import argparse
import time
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator
from contextlib import suppress

from culm.bamboo.decimal import size_text
from culm.cli.arguments import log_type, number
from culm.cli.command import Commands
from culm.cli.output import print_json
from culm.errors import NotHeld, PayloadDamaged
from culm.node.home import Home
from culm.sealing.mark import FIRST_LINE, is_sealed
from culm.store import Position, ReadableStore, StoredEntry
from culm.types import Log
from culm.wire.places import place_text

_PAUSE_SECONDS = 0.2  # Between two looks at the store: soon for a person, and next to nothing for the machine.
_SHOWN_BYTES = 1000  # Of a payload as text: some lines on a screen. ``culm show --payload`` writes all of it.


def register(commands: Commands) -> None:
    """Add the command of this module."""
    tail = commands.add("tail", _tail)
    tail.add_argument("log", metavar="AUTHOR/LOG", type=log_type, help="the log")
    tail.add_argument(
        "-n",
        "--entries",
        metavar="N",
        type=number("number of entries", 0),
        default=10,
        help="show the newest N entries (default: 10)",
    )
    tail.add_argument("-f", "--follow", action="store_true", help="go on with each entry that comes, until Control-C")


def _tail(arguments: argparse.Namespace) -> int:
    home = Home.find(arguments.home)
    with home.store(read_only=True) as store:
        begin = store.latest()
        found = newest(store, arguments.log, arguments.entries)
        if not found and not arguments.follow and store.lookup(arguments.log).entry_extent() is None:
            raise NotHeld(f"the store has no entries of {home.names().log(arguments.log)}")
        for stored in found:
            _print(arguments, store, stored)
        if arguments.follow:
            for stored in news(store, arguments.log, begin, lambda: time.sleep(_PAUSE_SECONDS)):
                _print(arguments, store, stored)
    return 0


def newest(store: ReadableStore, log: Log, count: int) -> list[StoredEntry]:
    """The newest verified entries of a log, ascending."""
    extent = store.lookup(log).entry_extent()
    if extent is None or not count:
        return []
    found = store.lookup(log).page(extent[1], ascending=False, limit=count)
    return [stored for kept in reversed(found) if (stored := store.get(kept.entry.place)) is not None]


def news(store: ReadableStore, log: Log, since: Position, wait: Callable[[], None]) -> Iterator[StoredEntry]:
    """The entries of a log whose payload becomes complete after a position, for ever; ``wait`` is called in between."""
    while True:
        page = store.news(since, author=log[0], log_id=log[1], with_payload=True)
        yield from (stored for stored, _ in page.entries)
        if not page.entries:
            wait()
        since = page.end


def _print(arguments: argparse.Namespace, store: ReadableStore, stored: StoredEntry) -> None:
    entry, text = stored.entry, _text(store, stored)
    if arguments.json:
        shown = {"place": place_text(entry.place), "seq": entry.seq, "size": entry.size, "hash": entry.hash.hex()}
        print_json(shown | {"text": text})
        return
    if text is None:
        text = f"({size_text(entry.size)}, {_kind(store, stored)})"
    print(f"{entry.seq:6}  {text}", flush=True)


def _kind(store: ReadableStore, stored: StoredEntry) -> str:
    """The state of a payload that is not shown as text."""
    return "sealed" if has_sealed(store, stored) else stored.payload_state.name.lower()


def has_sealed(store: ReadableStore, stored: StoredEntry) -> bool:
    """Whether the payload of an entry is held, and is a sealed one. Of a damaged one nobody can tell."""
    if stored.payload_complete:
        with suppress(PayloadDamaged):
            return is_sealed(store.payload_slice(stored.id, 0, len(FIRST_LINE)))
    return False


def _text(store: ReadableStore, stored: StoredEntry) -> str | None:
    """The beginning of a payload as one line of text; None if it is not held whole, damaged, sealed, or no text."""
    if not stored.payload_complete:
        return None
    is_cut = stored.entry.size > _SHOWN_BYTES
    try:
        data = store.payload_slice(stored.id, 0, _SHOWN_BYTES)
        if is_sealed(data):
            return None
        text = getincrementaldecoder("utf-8")().decode(data, final=not is_cut)
    except (UnicodeDecodeError, PayloadDamaged):
        return None
    shown = "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)
    return f"{shown} ..." if is_cut else shown
