"""The progress of work: entries and bytes done, of how many, how fast, and how much longer; and what went wrong.

On a terminal it is a bar on stderr; if stderr is not a terminal, nothing is shown. With ``--json`` a sync prints an
object of type ``progress`` every second on stdout; its last line is of type ``summary``.

Rates are those of the last seconds, not of the whole run, because a peer that becomes slow should show at once.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from culm.bamboo.decimal import size_text
from culm.cli.output import note, print_json
from culm.errors import ConfigError, Place
from culm.node.sessions.stats import SessionStats
from culm.wire.places import parse_place, place_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from culm.node.home import Home
    from culm.node.names import Names
    from culm.node.sync import SyncSummary

_WINDOW_SECONDS = 5.0  # Rates are averages over this time: shorter jumps about, longer shows a change too late.
_LEAST_SECONDS = 0.5  # No rate before this time, because the first few bytes say little about it.
LONG_BYTES = 32 * 1024 * 1024
"""From here on an append shows how far it is: fewer bytes take less than a second, and the bar's library a tenth."""
_SHOWN_FORKS = 20  # Logs; a peer may bring many, and ``culm logs`` has all.
_LINE_SECONDS = 1.0  # Least time between two lines of JSON, so that a long sync does not fill a log file.


@dataclass(frozen=True, slots=True)
class Reading:
    """Progress at one moment. ``total`` is the number of entries to come; None means not known (yet)."""

    seconds: float
    entries: int
    total: int | None
    size: int
    bytes_per_second: float | None
    seconds_left: float | None


class Meter:
    """Turns counts into rates. ``clock`` returns seconds and never goes back."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._samples: deque[tuple[float, int, int]] = deque([(self._began, 0, 0)])

    def read(self, entries: int, size: int, total: int | None = None) -> Reading:
        """Take the counts so far: entries (of ``total``, if known) and bytes (``size``)."""
        now = self._clock()
        self._samples.append((now, entries, size))
        while len(self._samples) > 2 and self._samples[1][0] <= now - _WINDOW_SECONDS:
            self._samples.popleft()
        began, entries_then, size_then = self._samples[0]
        rate = left = None
        if now - began >= _LEAST_SECONDS:
            rate = max(0, size - size_then) / (now - began)
            entry_rate = max(0, entries - entries_then) / (now - began)
            if total is not None and total >= entries and entry_rate:
                left = (total - entries) / entry_rate
        total = None if total is None else max(total, entries)
        return Reading(now - self._began, entries, total, size, rate, left)


def duration_text(seconds: float) -> str:
    """A duration for people: ``0:07``, ``12:40``, ``3:05:00``."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


@contextmanager
def progress_bar(title: str, console: Console | None = None) -> Iterator[ProgressBar]:
    """A bar on stderr, gone when the block ends; invisible if stderr is not a terminal."""
    if console is None and not sys.stderr.isatty():
        yield ProgressBar(None, title)
        return
    from rich.console import Console  # noqa: PLC0415 - rich takes longer to load than most commands run
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    console = console or Console(stderr=True)
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[counts]}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with progress:
        yield ProgressBar(progress, title)


def with_progress(pieces: Iterable[bytes], title: str, console: Console | None = None) -> Iterator[bytes]:
    """Pass pieces on; a bar counts their bytes once there are so many that it takes a while."""
    size, bar = 0, None
    with ExitStack() as stack:
        for piece in pieces:
            yield piece
            size += len(piece)
            if bar is None and size >= LONG_BYTES:
                bar = stack.enter_context(progress_bar(title, console))
            if bar is not None:
                bar.update(0, size)


class ProgressBar:
    """Shows entries and bytes done, with the time left once the total is known; without ``progress``, nothing."""

    def __init__(self, progress: Progress | None, title: str) -> None:
        self._progress = progress
        self._meter = Meter()
        if progress is not None:
            self._task = progress.add_task(title, total=None, counts="", left="")

    def update(self, entries: int, size: int, total_entries: int | None = None) -> None:
        """Show ``entries`` (of ``total_entries``) and ``size`` bytes done."""
        if self._progress is None:
            return
        reading = self._meter.read(entries, size, total_entries)
        self._progress.update(
            self._task, completed=entries, total=reading.total or None, counts=_counts(reading), left=_left(reading)
        )


def _counts(reading: Reading) -> str:
    parts = []
    if reading.total:
        parts.append(f"{reading.entries:,} of {reading.total:,} entries")
    elif reading.entries:
        parts.append(f"{reading.entries:,} entries")
    if reading.size:
        parts.append(size_text(reading.size))
    if reading.size and reading.bytes_per_second is not None:
        parts.append(f"{size_text(int(reading.bytes_per_second))}/s")
    return "  ".join(parts)


def _left(reading: Reading) -> str:
    return "" if reading.seconds_left is None else f"{duration_text(reading.seconds_left)} left"


@contextmanager
def sync_progress(
    arguments: argparse.Namespace, title: str, *, clock: Callable[[], float] = time.monotonic
) -> Iterator[Callable[[SessionStats], None]]:
    """A function to call with the counts of a sync, which shows them as a bar, or with ``--json`` as lines."""
    if arguments.json:
        meter, printed = Meter(clock), clock()

        def tell(stats: SessionStats) -> None:
            nonlocal printed
            entries, total = _entries(stats)
            reading = meter.read(entries, stats.bytes_received + stats.bytes_sent, total)
            if clock() - printed >= _LINE_SECONDS:
                printed = clock()
                print_json(_line(reading, stats))

        yield tell
        return
    with progress_bar(title) as bar:

        def show(stats: SessionStats) -> None:
            entries, total = _entries(stats)
            bar.update(entries, stats.bytes_received + stats.bytes_sent, total)

        yield show


def _entries(stats: SessionStats) -> tuple[int, int | None]:
    """The entries sent and received so far, and their expected number; None before the peer has announced any."""
    done = stats.entries_received + stats.entries_sent
    return done, max(done, stats.missing + stats.entries_sent) if stats.missing else None


def _line(reading: Reading, stats: SessionStats) -> dict[str, object]:
    names = ("entries_received", "entries_sent", "bytes_received", "bytes_sent", "payload_bytes")
    return {
        "type": "progress",
        "seconds": round(reading.seconds, 3),
        "entries": reading.entries,
        "entries_total": reading.total,
        **{name: getattr(stats, name) for name in names},
        "bytes_per_second": None if reading.bytes_per_second is None else round(reading.bytes_per_second),
        "seconds_left": None if reading.seconds_left is None else round(reading.seconds_left, 1),
    }


def summed(summary: SyncSummary) -> dict[str, object]:
    """A summary as the commands print it in JSON."""
    forked = [place_text(Place(*log, seq)) for log, seq in sorted(summary.forked.items())]
    return {**asdict(summary), "forked": forked, "seconds": round(summary.seconds, 3)}


def _named(names: Names, line: str) -> str:
    """A refusal with the name of the author, if it begins with an entry."""
    place, colon, reason = line.partition(": ")
    try:
        return names.place(parse_place(place)) + colon + reason
    except ConfigError:
        return line


def tell_wrong(home: Home, summary: SyncSummary) -> None:
    """Print what an exchange did not take, and the forks that it found."""
    names = home.names()
    for line in summary.refused:
        note(f"refused {_named(names, line)}")
    forked = sorted(summary.forked.items())
    for log, seq in forked[:_SHOWN_FORKS]:
        note(
            f"warning: {names.log(log)} is forked at entry {seq}: its author signed two histories; what comes before"
            " that entry stays valid, nothing from it on is trusted; culm doctor says what to do"
        )
    if len(forked) > _SHOWN_FORKS:
        note(f"warning: {len(forked) - _SHOWN_FORKS} more logs are forked; culm logs shows which")
