"""Where the CPU time of a receiver goes: microseconds of each part for an entry, protocol by protocol.

``culm sync`` (or ``culm import``) runs as a program of its own, as everywhere in the benchmarks, but with clocks around
some of its functions: the time of the calling thread that a function takes, without that of the functions inside it
that have a clock, too. Only functions that deal with hundreds of entries at once have one, so the clocks cost nothing.
What no clock sees is the rest of the process: sockets, tasks, turns, and what SQLite does at the end. Starting the
program does not count.
"""

from __future__ import annotations

import atexit
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from functools import wraps
from importlib import import_module
from pathlib import Path
from threading import local
from typing import TYPE_CHECKING, Any

from bench.harness import Figure, say
from bench.intervals import ENTRY_GOAL, PAYLOAD, asking, fill, make_home, serving
from culm.testing import build_log

if TYPE_CHECKING:
    from collections.abc import Callable

ENTRIES = 20_000  # So many that the beginning and the end of a session hardly count.
ROUNDS = 3
PROTOCOLS = ("intervals", "culm", "proposals", "bushbaby", "import")
ALL, REST = "all", "the rest: sockets, tasks, turns"
CLOCKS = {
    "reading messages and entries": (
        "culm.intervals.connection:Connection._take_all",
        "culm.proposals.endpoint:Endpoint.receive_data",
        "culm.store.exchange:Importer.run",
    ),
    "checking signatures": ("culm.bamboo.verification:_check_chunk",),
    "events of the connection": ("culm.node.sessions.driver:Driver._parsed",),
    "events on their way to the store": ("culm.node.sessions.pointtopoint:PointToPointSession._handle_all",),
    "store: payload hashes, order, commit": ("culm.store.sqlite:Store._add_batch",),
    "store: links, states, rows": ("culm.store.ingest:Ingestion.take", "culm.store.ingest:Ingestion.finish"),
    "store: inserting entries": ("culm.store.logview:LogView._write_rows",),
    "store: inserting payloads": ("culm.store.ingest:write_payloads",),
    "store: record index": ("culm.store.records.index:settle",),
    "store: folding the WAL file back": ("culm.store.database:Database.fold", "culm.store.database:Database.close"),
}
"""What is measured together, under which name. Names that a commit does not have are left out."""


def run() -> list[Figure]:
    """Measure each protocol."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        say(f"{ENTRIES:,} entries of {PAYLOAD} bytes: building the log")
        builder = build_log(ENTRIES, payload_size=PAYLOAD)
        alice = make_home(folder / "alice")
        log = fill(alice, builder)
        file = folder / "entries"
        file.write_bytes(b"".join(entry.encoded + builder.payloads[entry.hash] for entry in builder.entries))
        del builder
        figures: list[Figure] = []
        for protocol in PROTOCOLS:
            say(f"receiver: {protocol}")
            rounds = [_measure(folder, protocol, alice, log, file) for _ in range(ROUNDS)]
            figures += _figures(protocol, rounds)
    return figures


def _figures(protocol: str, rounds: list[dict[str, float]]) -> list[Figure]:
    parts = [name for name in (*CLOCKS, REST, ALL) if any(name in found for found in rounds)]
    medians = {name: statistics.median(found.get(name, 0.0) for found in rounds) / ENTRIES * 1e6 for name in parts}
    return [
        Figure(
            f"{protocol}: {name}", medians[name], "us/entry", goal=ENTRY_GOAL if name == ALL else None, at_least=False
        )
        for name in parts
    ]


def _measure(folder: Path, protocol: str, alice: Path, log: tuple[bytes, int], file: Path) -> dict[str, float]:
    bob, result = make_home(folder / "bob"), folder / "clocks.json"
    try:
        if protocol == "import":
            _receive(result, bob, "import", str(file))
        else:
            clump, logs = asking(protocol, log)
            with serving(alice, *clump, scheme=protocol) as (url, _):
                _receive(result, bob, "sync", url, *logs, *clump)
    finally:
        shutil.rmtree(bob)
    found: dict[str, float] = json.loads(result.read_text(encoding="ascii"))
    return found


def _receive(result: Path, home: Path, *arguments: str) -> None:
    command = [sys.executable, "-m", "bench.receiver", str(result), "--home", str(home), *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


# -- in the receiver's process --------------------------------------------------------------------------------------


class Clocks:
    """The seconds of each thread, shared out among the functions that run in it."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = defaultdict(float)
        self._began: float | None = None
        self._own = local()

    def install(self) -> None:
        """Put a clock around each function of ``CLOCKS``."""
        for name, places in CLOCKS.items():
            for place in places:
                module, _, path = place.partition(":")
                *parents, last = path.split(".")
                owner: Any = import_module(module)
                for parent in parents:
                    owner = getattr(owner, parent, None)
                if hasattr(owner, last):
                    setattr(owner, last, self._measured(name, getattr(owner, last)))

    def _measured(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def timed(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - any function
            if self._began is None:
                self._began = time.process_time()
            self._switch(name)
            try:
                return function(*arguments, **options)
            finally:
                self._switch(None)

        return timed

    def _switch(self, inner: str | None) -> None:
        """A function with a clock begins, or (None) the innermost one ends; what ran until now gets its time."""
        stack, now = self._own.__dict__.setdefault("stack", []), time.thread_time()
        if stack:
            self._seconds[stack[-1]] += now - self._own.since
        if inner is None:
            stack.pop()
        else:
            stack.append(inner)
        self._own.since = time.thread_time()

    def result(self) -> dict[str, float]:
        """The seconds of each clock, of the rest and of all since the first clock ran."""
        whole = time.process_time() - (self._began or 0.0)
        return {**self._seconds, REST: whole - sum(self._seconds.values()), ALL: whole}


def main() -> None:
    """Run ``culm`` with clocks; write what they show at the end of the process."""
    clocks, result = Clocks(), Path(sys.argv[1])
    clocks.install()
    atexit.register(lambda: result.write_text(json.dumps(clocks.result()), encoding="ascii"))
    from culm.cli import main as culm  # noqa: PLC0415 - with the clocks

    sys.argv = ["culm", *sys.argv[2:]]
    sys.exit(culm())


if __name__ == "__main__":
    main()
