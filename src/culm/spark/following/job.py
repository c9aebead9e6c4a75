"""Following inputs from the command line: what ``culm spark follow`` runs."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from culm.spark.following.query import Following
from culm.spark.reading.found import EntryRow
from culm.spark.runtime.running import running, silent
from culm.spark.runtime.shell import SETTINGS
from culm.spark.storage import located, settings_here
from culm.spark.verification.state import State
from culm.spark.verification.steps import COUNTED
from culm.spark.verification.summary import Summary
from culm.spark.verification.verify import chosen

_SECONDS = 0.5  # Between two looks whether the query has ended; a user who presses Ctrl-C waits no longer than this.


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
    arguments are those of ``query.follow``, and ``master`` as for ``verification.job.run``.

    ``ConfigError`` if an argument does not fit; ``CulmError`` if a batch fails. The batches before it are kept.
    """
    say, folder = progress or silent, state.absolute()
    given = Following(folder, output, table, table_format, signatures, say)
    with running(master or "local[*]", say, SETTINGS) as spark:
        given.catch_up(spark)
        query = given.start(stream(spark, source, dict(options)), once=once, interval=interval)
        with _interrupts() as interrupted:
            while query.isActive and not interrupted.wait(_SECONDS):
                pass
            if interrupted.is_set():
                say("ending after the batch at work; press Ctrl-C again to end at once")
                given.halt()
                query.stop()
                say("ended; the same command goes on from here")
            else:
                query.awaitTermination()
    known = State.open(folder, chosen(signatures))
    return Summary.of(known.totals or dict.fromkeys((*COUNTED, "forks", "rejects"), 0), signatures)


def stream(spark: SparkSession, source: str, options: Mapping[str, str]) -> DataFrame:
    """The entries that ``format("culm")`` finds at a source, with the columns that a verification needs."""
    (place,) = located([source])  # an absolute path, because the source is opened by processes elsewhere
    settings = {} if place.is_local else dict(settings_here())
    given = {"columns": ",".join(EntryRow._fields), **settings, **options}
    return spark.readStream.format("culm").options(**given).load(place.uri)


@contextmanager
def _interrupts() -> Iterator[threading.Event]:
    """An event for the first SIGINT or SIGTERM in this block; a second one does what it always does.

    Spark's own handler would end the jobs of the batch at work. Signals reach the main thread only.
    """
    interrupted = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield interrupted
        return
    signals = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(one) for one in signals]

    def note(*_: object) -> None:
        interrupted.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    for one in signals:
        signal.signal(one, note)
    try:
        yield interrupted
    finally:
        for one, handler in zip(signals, before, strict=True):
            signal.signal(one, handler)
