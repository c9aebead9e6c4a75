"""What one run leaves for the next, so that a daily run costs as much as its new entries, not as all entries.

The simple way is to verify everything again each day, which soon takes longer than the day. The next way is to verify
the new entries only, and to add their verdicts. That is wrong: a new entry can give old ones the path to entry 1 that
they lacked, or prove a fork below them. So a run has to know the earlier entries, without reading all of them.

A state keeps the segments of earlier runs (``segment``)::

    STATE/manifest.json              what the state is, and which generations there are
    STATE/NUMBER/segments/           Parquet: the segments that run made, with their entries
    STATE/NUMBER/index/              Parquet: for each log that run touched, all of its segments

A run merges new entries with those segments that they overlap, which gives new segments. All other segments stay as
they are. Then it settles each log that got new entries once more, from the summaries of all its segments; these are
small, and stand in the index. Only segments whose outcome has changed are read again, to write their new verdicts.
For example, a late entry 5,000 in a log of a million entries costs reading one segment of up to 4,096 entries, the
log's summaries, and the segments whose verdicts it changes.

Each run adds a *generation* and changes no file of earlier ones. The index of a generation has all segments of the
logs that the run touched, so the latest generation that has a log is right about it. The manifest, replaced in one
step, makes a generation part of the state: a run that fails before that leaves the state as it was.

Each run adds a generation (``state``), and leaves segments in earlier ones that are no longer in use. After a hundred
runs a day of small batches would be mostly such leftovers, and each run would open hundreds of files. Writing the whole
state anew each time would cost more than verifying it. So generations are folded as in a log-structured tree: the
newest ones, as far back as each is no larger than twice all that came after it. A generation is therefore folded with
others only when these have grown to half its size, and each entry is copied a few times, however many runs there are.

Only the newest generations can be folded, because the latest generation that has a log is right about it. Folders that
are no longer part of the state are removed by the next run, so that a program that reads them now can go on.
"""

import errno
import fcntl
import json
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from shutil import rmtree
from typing import Any, Self

from pyspark.sql import DataFrame, SparkSession

from culm.errors import ConfigError
from culm.spark.batches.pack import BLOCK_BITS
from culm.spark.runtime.engine import Engine, Table, To
from culm.spark.runtime.onspark import OnSpark, frame_of
from culm.spark.verification.authentic import Signatures
from culm.spark.verification.merge import COUNTED, LOG, SEGMENT, IndexRow, SegmentRow, grouped
from culm.spark.verification.verdicts import JudgedRow, Verdict, pronounced
from culm.staging import replace_text

FORMAT = 2  # of the files; a state of another format is refused, because old and new segments would not fit together


MADE = (*SEGMENT, "made")
"""The columns by which rows of one segment of one generation are equal."""

CHECKPOINT = "checkpoint"
"""The folder below a state where a query that follows entries (``culm.spark.following``) notes what it has read."""

_MANIFEST = "manifest.json"
_FACTS = ("signatures", "generations", "totals", "mark", "before", "position")
"""What a manifest says of a state."""


@contextmanager
def held(folder: Path, signatures: Signatures) -> Iterator["State"]:
    """The state in a folder, to add to it, and locked against other runs during this block. The folder may be new.

    The lock is released when the process ends, even after SIGKILL. ``ConfigError`` if another run has the lock, if the
    folder cannot be made, and as for ``State.open``. Some network file systems have no locks; two runs at once are then
    not noticed.
    """
    _check_parent(folder)
    with ExitStack() as stack:
        try:
            folder.mkdir(exist_ok=True)
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            stack.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(f"{folder}: another run is at work on this state; try again when it has ended") from None
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
                raise ConfigError(f"{folder}: cannot be used as a folder: {error.strerror}") from None
        try:
            yield State.open(folder, signatures)
        finally:
            with suppress(OSError):  # it is not empty, unless the run failed before it wrote anything
                folder.rmdir()


def _check_parent(folder: Path) -> None:
    if not folder.parent.is_dir():
        raise ConfigError(f"{folder}: there is no folder {folder.parent}")


@dataclass(slots=True)
class State:
    """A folder of state: its kind of ``signatures``, its generations in order, and the counts of all it knows.

    A new state has no generations. ``mark`` tells what a state knew after a run from what it, or any other state, knew
    at any other time: ``IDENTITY-RUN-TOKEN``, where the identity is that of the state, and the run is the number of
    the generation that it made. ``before`` is the mark of the run before the last, "" if there was none. ``position``
    is how far a query that follows entries has come (``following``).
    """

    folder: Path
    signatures: str
    generations: list[int]
    totals: dict[str, int]
    mark: str = ""
    before: str = ""
    position: dict[str, Any] = field(default_factory=dict)
    _token: str = field(default_factory=partial(secrets.token_hex, 8), init=False)

    @classmethod
    def open(cls, folder: Path, signatures: Signatures | None = None) -> Self:
        """The state in a folder, to read it (``signatures`` is None) or to add to it with this kind of signatures.

        A state to add to may be new; nothing is written before ``begin``. ``ConfigError`` if there is no state to read,
        if the folder holds something else or a state of another format, and if the state was made with the other kind
        of signatures: an entry that ``heads`` takes for verified may be invalid for ``all``.
        """
        manifest = folder / _MANIFEST
        if not manifest.exists():
            if signatures is None:
                raise ConfigError(f"{folder}: there is no state, since it has no {_MANIFEST}")
            if folder.is_dir() and any(not path.name.isdigit() for path in folder.iterdir() if path.name != CHECKPOINT):
                raise ConfigError(f"{folder}: holds something else than a state; name another folder")
            _check_parent(folder)
            return cls(folder, signatures.value, [], dict.fromkeys((*COUNTED, "forks", "rejects"), 0))
        try:
            facts = json.loads(manifest.read_text())
            of_format = (facts["format"], facts["block_bits"])
            state = cls(folder, **{name: facts[name] for name in _FACTS})
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise ConfigError(f"{manifest}: cannot be read: not the manifest of a state, or damaged") from error
        if of_format != (FORMAT, BLOCK_BITS):
            raise ConfigError(f"{folder}: a state of another format; verify all inputs again into a new state")
        if signatures is not None and state.signatures != signatures.value:
            raise ConfigError(
                f"{folder}: was made with --signatures {state.signatures}; use the same, or another state folder"
            )
        return state

    @property
    def next_number(self) -> int:
        """The number of the next generation; the first one has 1."""
        return max(self.generations, default=0) + 1

    @property
    def grown(self) -> Self:
        """The state with the next generation, which need not be a part of it so far."""
        return replace(self, generations=[*self.generations, self.next_number])

    @property
    def next_mark(self) -> str:
        """The mark that the run at work will leave."""
        return f"{self.mark.partition('-')[0] or self._token}-{self.next_number}-{self._token}"

    def place(self, number: int) -> Path:
        """The folder of a generation."""
        return self.folder / str(number)

    def begin(self) -> Path:
        """Make the folder for the next generation. Folders that failed runs left behind are removed."""
        self.folder.mkdir(exist_ok=True)
        for path in self.folder.iterdir():
            if path.name.isdigit() and int(path.name) not in self.generations:
                rmtree(path)
        place = self.place(self.next_number)
        place.mkdir()
        return place

    def commit(self, totals: dict[str, int]) -> None:
        """Make the next generation part of the state; ``totals`` are the counts of all that the state then knows."""
        self.before, self.mark, self.totals = self.mark, self.next_mark, totals
        self.replace([], self.next_number)

    def replace(self, generations: list[int], number: int) -> None:
        """Make the next generation part of the state, in the place of some that ``fold`` folded into it."""
        self.generations = [*(other for other in self.generations if other not in generations), number]
        facts = {"format": FORMAT, "block_bits": BLOCK_BITS, **{name: getattr(self, name) for name in _FACTS}}
        replace_text(self.folder / _MANIFEST, json.dumps(facts, indent=2) + "\n")

    # -- tables

    def index(self, engine: Engine, among: Table[Any] | None = None, *, forked: bool = False) -> Table[IndexRow]:
        """The segments of all logs, of the logs of another table, or of those that are forked."""
        found = engine.load(self._places("index"), IndexRow, "generation")
        found = found.where("forked_at") if forked else found  # once forked, a log is so in all later generations
        found = found if among is None else found.among(among, LOG)
        return found.spread(LOG, ("-generation",)).keep(_latest, IndexRow)[0] if self.generations else found

    def segments(self, engine: Engine, among: Table[Any], table: type[To]) -> Table[To]:
        """The segments that equal a row of another table in the columns ``MADE``, with the outcomes that it has."""
        return among.join(engine.load(self._places("segments"), table, "made").among(among, MADE), MADE, table)

    def _places(self, name: str) -> list[tuple[int, Path]]:
        return [(number, self.place(number) / name) for number in self.generations]

    def judged(self, engine: Engine) -> Table[JudgedRow]:
        """All segments with their outcomes."""
        return self.segments(engine, self.index(engine), JudgedRow)

    def forked(self, engine: Engine, among: Table[Any] | None = None) -> tuple[Table[SegmentRow], Table[IndexRow]]:
        """The segments of all forked logs, or of those of another table, and their outcomes: for ``forks.forks``."""
        live = self.index(engine, among, forked=True)
        return self.segments(engine, live, SegmentRow), live

    def verdicts(self, spark: SparkSession) -> DataFrame:
        """The verdicts on all entries, as ``verify`` gives them."""
        return frame_of(self.judged(OnSpark(spark)).map(partial(pronounced, everything=True), Verdict))


def _latest(rows: Iterable[IndexRow]) -> Iterator[IndexRow]:
    """The rows of each log from the latest index that has the log; they come sorted by log, the latest first."""
    for _, of_log in grouped(rows, LOG):
        _, newest = next(grouped(of_log, ("generation",)))
        yield from newest


# -- folding --------------------------------------------------------------------------------------------------------

# Generations are folded when there are so many to fold. Fewer would be copied more often; with more of them, each run
# opens more files.
FEWEST = 8

# Up to so many bytes of files are folded in this process: a second of work, in which Spark would hardly have begun. All
# that is still in use of them is in memory at once; most of it is not, where batches are small.
_HERE_BYTES = 256 * 1024 * 1024


def fold(state: State, spark: SparkSession | None) -> None:
    """Fold generations of a state, if it is time to. The state knows the same before and after it.

    Much is folded on ``spark``; with None everything is folded in this process.
    """
    files = {number: state.place(number).rglob("*.parquet") for number in state.generations}
    sizes = {number: sum(path.stat().st_size for path in paths) for number, paths in files.items()}
    chosen = foldable(sizes)
    if len(chosen) < FEWEST:
        return
    place, number, part = state.begin(), state.next_number, replace(state, generations=chosen)
    is_small = sum(sizes[number] for number in chosen) <= _HERE_BYTES
    engine = Engine() if is_small or spark is None else OnSpark(spark, place / "work")
    index = part.index(engine)

    def renumbered(rows: Iterable[IndexRow]) -> Iterator[IndexRow]:
        return (row._replace(made=number) if row.made in chosen else row for row in rows)

    index.keep(renumbered, IndexRow, at={IndexRow: place / "index"})
    part.segments(engine, index, SegmentRow).select(SegmentRow, outcome=None, made=None).kept(place / "segments")
    rmtree(place / "work", ignore_errors=True)
    state.replace(chosen, number)


def foldable(sizes: dict[int, int]) -> list[int]:
    """The newest generations that are to be folded, in order. ``sizes``: those of all generations, in order."""
    chosen, total = list[int](), 0
    for number, size in reversed(sizes.items()):
        if chosen and size > 2 * total:
            break
        chosen.append(number)
        total += size
    return chosen[::-1]
