"""A program with a view, as a user's would be: ``python -m crash.viewer HOME VIEW SEED``.

It appends, takes in logs of others in any order, forgets payloads, and keeps its view up to date, without end. The view
counts: a row for each entry, and how many there are of each log. An entry that counts twice, or not at all, shows.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from culm import Identity, SQLiteStore, log_text
from culm.node.home import Home
from culm.testing import build_log
from culm.views import View, ViewFile

if TYPE_CHECKING:
    import sqlite3

    from culm.bamboo import Entry

LOGS = (1, 2)
_OTHERS = 40  # Logs of others, whose entries sort between those that the view has.
_LENGTH = 12
SCHEMA = """
CREATE TABLE counted (name TEXT NOT NULL, size INTEGER NOT NULL);
CREATE TABLE totals (log TEXT PRIMARY KEY, entries INTEGER NOT NULL);
"""


def count(rows: sqlite3.Connection, entry: Entry, value: Any) -> None:  # noqa: ANN401 - bytes, as ``decode`` gives them
    """Count an entry."""
    rows.execute("INSERT INTO counted VALUES (?, ?)", (entry.name, len(value)))
    rows.execute(
        "INSERT INTO totals VALUES (?, 1) ON CONFLICT (log) DO UPDATE SET entries = entries + 1", (log_text(entry.log),)
    )


COUNTS = View(SCHEMA, count, decode=lambda _, payload: payload)


def rows_of(view: ViewFile) -> tuple[list[str], dict[str, int]]:
    """The names that were counted, and the totals."""
    names = [name for (name,) in view.read("SELECT name FROM counted ORDER BY name")]
    return names, dict(view.read("SELECT log, entries FROM totals WHERE entries > 0"))


def miscounted(names: list[str], totals: dict[str, int]) -> list[str]:
    """What shows that an entry counts twice, or that half of an entry's changes are there."""
    found = [f"{name} counts {times} times" for name, times in Counter(names).items() if times > 1]
    summed = Counter(name.rpartition("/")[0] for name in names)
    if summed != totals:
        found.append(f"the totals are {totals}, and the rows make {dict(summed)}")
    return found


def complete(store: SQLiteStore) -> list[str]:
    """The names of all entries that the view has to count."""
    logs = [log.log for log in store.logs()]
    return sorted(stored.entry.name for log in logs for stored in store.entries(log) if stored.payload_complete)


def run(store: SQLiteStore, identity: Identity, view: ViewFile, rng: random.Random) -> None:
    """Go on for ever."""
    while True:
        for _ in range(rng.randint(1, 8)):
            store.append(identity, rng.choice(LOGS), [rng.randbytes(rng.randint(0, 300))])
        log = build_log(_LENGTH, seed=rng.randrange(_OTHERS))
        items = log.items()
        store.add(items[: rng.randint(1, _LENGTH)] if rng.random() < 0.8 else items)
        if rng.random() < 0.5:
            own = list(store.entries((identity.public, LOGS[0])))
            if own:
                store.forget(rng.choice(own).entry.place)
        view.update()


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(prog="crash.viewer", description=__doc__)
    parser.add_argument("home", type=Path)
    parser.add_argument("view", type=Path)
    parser.add_argument("seed", type=int)
    arguments = parser.parse_args()
    home = Home.find(arguments.home)
    with closing(SQLiteStore(home.store_path)) as store, ViewFile(arguments.view, COUNTS, store) as view:
        print("counting", flush=True)
        run(store, home.identity(None), view, random.Random(arguments.seed))


if __name__ == "__main__":
    main()
