"""A streaming query that verifies what arrives: what is done with each of its batches, and ``culm spark follow``."""

import json
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from shutil import rmtree
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from culm.errors import ConfigError, CulmError
from culm.spark.following.delivery import CHANGES, FORKS, REJECTS, Change, Folder, Tables, changes, counted, output_of
from culm.spark.reading.found import READ
from culm.spark.runtime.engine import Engine, Table
from culm.spark.runtime.onspark import OnSpark
from culm.spark.runtime.output import now, provenance, stating
from culm.spark.runtime.session import one_line_failures, running, silent
from culm.spark.runtime.shell import SETTINGS, SMALL_BYTES
from culm.spark.storage import located, settings_here
from culm.spark.verification.authentic import Signatures
from culm.spark.verification.forks import Fork, forks
from culm.spark.verification.gather import PackRow, Reject, gather
from culm.spark.verification.job import Summary
from culm.spark.verification.merge import BLOCK, IndexRow, sums
from culm.spark.verification.state import CHECKPOINT, State, fold, held
from culm.spark.verification.verdicts import VERDICTS, pronounced
from culm.spark.verification.verify import Increment, entries_of

_SECONDS = 0.5  # Between two looks whether the query has ended; a user who presses Ctrl-C waits no longer than this.

Say = Callable[[str], None]

# Bytes of a state for each entry: its record, its findings, its place in the summaries.
_ENTRY_BYTES = 450


def follow(
    entries: DataFrame,
    state: Path,
    *,
    output: Path | None = None,
    table: str | None = None,
    table_format: str = "delta",
    signatures: str = "all",
    once: bool = False,
    interval: float = 10.0,
    progress: Callable[[str], None] | None = None,
) -> StreamingQuery:
    """Start a query that verifies entries as they arrive, in any order; the verdicts of a run over all of them.

    ``entries`` is a streaming DataFrame as ``verify`` takes it. ``state`` is the folder of a state, made if it is not
    there; it also notes what was read (its ``checkpoint``), so that a query that died goes on where it was. ``output``
    is a folder for the change feed (``delivery.Change``, and the number of the ``batch``); or ``table`` is a table that
    verdicts are merged into, in ``table_format`` (``delta``, ``iceberg``), with the feed in ``TABLE_changes``. Beside
    the feed stand ``forks``, those of a run over all entries, and ``rejects``, batch by batch, too.
    ``signatures`` is ``all`` or ``heads``. ``once`` ends the query when it has read what there is; otherwise it looks
    every ``interval`` seconds. ``progress`` is called with a line for each batch.

    ``ConfigError`` if an argument does not fit, if the state or the output holds something else, or if another run is
    at work on the state. Errors in a batch end the query; everything up to the batch before is kept.
    """
    given = Following("a DataFrame", state, output_of(output, table, table_format), signatures, progress or silent)
    return given.start(entries, once=once, interval=interval)


class Following:
    """What a query does with each batch. None begins once ``halted`` is set; ``busy`` is locked while one is at work.

    ``source`` is what is followed, to be stated with the results. ``ConfigError`` if the state is something else,
    before Spark is started.
    """

    def __init__(self, source: str, folder: Path, output: Folder | Tables, signatures: str, say: Say) -> None:
        # There is nothing to say of the files of the source, because more come while the query runs.
        self._made = provenance("follow", [], {"source": source, "signatures": signatures, "state": str(folder)})
        self.folder, self.output, self.ways, self.say = folder.absolute(), output, Signatures(signatures), say
        self.busy, self.halted = threading.Lock(), threading.Event()
        State.open(self.folder, self.ways)

    def start(self, entries: DataFrame, *, once: bool, interval: float) -> StreamingQuery:
        """Start the query. ``ConfigError`` if the entries are no stream.

        Before that, deliver what the state knows and the output lacks, as after a kill, or if the output is new.
        """
        if not entries.isStreaming:
            raise ConfigError("there is nothing to follow: the DataFrame is not a stream; verify() takes it as it is")
        rows = entries_of(entries)
        with self.busy, held(self.folder, self.ways) as state, one_line_failures():
            self._deliver(state, entries.sparkSession)
        trigger: dict[str, Any] = {"availableNow": True} if once else {"processingTime": f"{interval:g} seconds"}
        writer = rows.writeStream.foreachBatch(self).trigger(**trigger)
        return writer.option("checkpointLocation", f"file://{self.folder / CHECKPOINT}").start()

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Verify a batch, unless that was done before, and deliver what has changed."""
        with self.busy, held(self.folder, self.ways) as state, stating(self._made):
            if self.halted.is_set():
                raise CulmError("halted between two batches")
            # A batch of a new checkpoint is told by the name of its query from an old one of the same number.
            position = {"query": json.loads((self.folder / CHECKPOINT / "metadata").read_text())["id"], "batch": number}
            if state.position != position:
                self._add(state, batch, position)
            self._deliver(state, batch.sparkSession)
            fold(state, batch.sparkSession)

    def _add(self, state: State, batch: DataFrame, position: dict[str, Any]) -> None:
        """Verify the entries of a batch on top of the state."""
        place = state.begin()
        work = OnSpark(batch.sparkSession, place / "work")
        step = partial(gather, folder=work.shelf("packs"))
        packs: Table[PackRow]
        packs, rejects = work.kept(batch, step, (PackRow, Reject), {Reject: place / REJECTS})
        if packs.is_empty and rejects.is_empty:
            return
        # This process does it if the batch and the blocks of the state that it touches are small, as most are.
        engine: Engine = work
        size = sum(path.stat().st_size for path in (place / "work").rglob("*"))
        if size <= SMALL_BYTES:
            here = Table(PackRow, list(packs.batches(*PackRow._fields)).copy)
            if _is_small(state.index(Engine(), here).among(here, BLOCK), size):
                engine, packs = Engine(), here
        run = Increment(engine, state, size=size, place=place)
        run.rejects = rejects
        run.take(packs)
        counts = run.pronounce(place / CHANGES, partial(pronounced, told=changes), Change)
        self._prove(state, work)
        state.position = position
        state.commit(counts)

    def _prove(self, state: State, work: Engine) -> None:
        """Write the forks of the logs that the run at work concerns, if they are new or were told otherwise before.

        The proof of a fork may lie anywhere in its log, so all of that log is read, here if it is small.
        """
        made = replace(state, generations=[state.next_number])
        engine = Engine() if _is_small(made.index(Engine(), forked=True)) else work
        concerned = made.index(engine, forked=True)
        found, before = (forks(*one.forked(engine, concerned)) for one in (state.grown, state))
        found.among(before, Fork._fields, "anti").kept(state.place(state.next_number) / FORKS)

    def _deliver(self, state: State, spark: SparkSession) -> None:
        """Bring the output up to date with a state, say what changed in it, and delete the changes.

        ``ConfigError`` if the output has changes of another state, or of a later run of this one.
        """
        if state.mark and (mark := self.output.mark(spark)) != state.mark:
            number, made = _checked(mark, state.mark, self.output.name), state.place(state.generations[-1])
            tables = {name: made / name for name in (CHANGES, FORKS, REJECTS) if (made / name).is_dir()}
            work, is_next = made / "work", mark == state.before
            engine = OnSpark(spark, work)
            rmtree(work, ignore_errors=True)
            if not is_next or CHANGES not in tables:
                tables[CHANGES] = work / CHANGES
                step = partial(pronounced, everything=True, told=changes)
                state.judged(engine).keep(step, Change, at={Change: tables[CHANGES]})
            # An output that an earlier version made has no forks.
            if not is_next or FORKS not in tables or not self.output.has(spark, FORKS):
                tables[FORKS] = work / FORKS
                forks(*state.forked(engine)).kept(tables[FORKS])
            facts = {"made": {**self._made, "ended": now()}, "batch": number, "mark": state.mark}
            self.output.put(spark, tables, Summary.of(state.totals, self.ways.value).as_dict() | facts)
            every = ", ".join(f"{state.totals[name]:,} {name}" for name in VERDICTS)
            self.say(f"batch {number}: {counted(tables)}; {state.totals['entries']:,} entries: {every}")
        forget(state)


def _is_small(index: Table[IndexRow], more: int = 0) -> bool:
    """Whether some segments of a state, and so many bytes more, fit into this process."""
    return more + _ENTRY_BYTES * sums(index, ("entries",))["entries"] <= SMALL_BYTES


def forget(state: State) -> None:
    """Delete the changes of the last run, which have been delivered, and what it worked with."""
    for name in (CHANGES, FORKS, REJECTS, "work") if state.generations else ():
        rmtree(state.place(state.generations[-1]) / name, ignore_errors=True)


def _checked(there: str, given: str, name: str) -> int:
    """The number of the run that is to be delivered; ``there`` is the mark of the output."""
    identity, number, _ = given.split("-")
    other, last, _ = (there or f"{identity}-0-").split("-")
    if other != identity:
        raise ConfigError(f"{name}: has the verdicts of another state; name another output")
    if int(last) >= int(number):
        raise ConfigError(
            f"{name}: has the verdicts of run {last} of this state, which is only at run {number}, as a copy that"
            " was restored would be; name another output"
        )
    return int(number)


# -- the command ------------------------------------------------------------------------------------------------


def run_follow(
    source: str,
    state: Path,
    *,
    output: Path | None = None,
    table: str | None = None,
    table_format: str = "delta",
    signatures: str = "all",
    once: bool = False,
    interval: float = 10.0,
    options: Iterable[tuple[str, str]] = (),
    master: str | None = None,
    progress: Callable[[str], None] | None = None,
) -> Summary:
    """Follow an input until it has been read (``once``), or until SIGINT or SIGTERM.

    ``source`` is what ``readStream.format("culm")`` follows: a folder, a store, a peer, with its ``options``. The other
    arguments are those of ``follow``, and ``master`` as for ``verification.job.run``.

    ``ConfigError`` if an argument does not fit; ``CulmError`` if a batch fails. The batches before it are kept.
    """
    say = progress or silent
    (place,) = located([source])  # an absolute path, because the source is opened by processes elsewhere
    given = Following(place.uri, state.absolute(), output_of(output, table, table_format), signatures, say)
    settings = dict(() if place.is_local else settings_here()) | {"columns": ",".join(READ)} | dict(options)
    with running(master or "local[*]", say, SETTINGS) as spark:
        entries = spark.readStream.format("culm").options(**settings).load(place.uri)
        query = given.start(entries, once=once, interval=interval)
        with _interrupts(given.halted):
            while query.isActive and not given.halted.wait(_SECONDS):
                pass
            if given.halted.is_set():
                say("ending after the batch at work; press Ctrl-C again to end at once")
                with given.busy:
                    pass
                query.stop()
                say("ended; the same command goes on from here")
            else:
                query.awaitTermination()
    return Summary.of(State.open(given.folder, given.ways).totals, signatures)


@contextmanager
def _interrupts(halted: threading.Event) -> Iterator[None]:
    """Set an event with the first SIGINT or SIGTERM in this block; a second one does what it always does.

    Spark's own handler would end the jobs of the batch at work. Signals reach the main thread only.
    """

    def note(*_: object) -> None:
        halted.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    is_main = threading.current_thread() is threading.main_thread()
    with ExitStack() as stack:
        for one in (signal.SIGINT, signal.SIGTERM) if is_main else ():
            stack.callback(signal.signal, one, signal.signal(one, note))
        yield
