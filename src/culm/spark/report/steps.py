"""The steps of a report: plain functions from columns to columns, and how rows come to them on either engine.

All counts come from the stretches of the verdicts (``culm.spark.report.stretches``). ``culm.spark.report.job`` puts the
steps together.

Rows come in batches of any size. A step gets some ten thousand rows at once, because each call costs some milliseconds;
not all rows, so that memory is bounded.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import chain, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import compute

from culm.ranges import runs as of_numbers
from culm.spark.batches.arrays import begins, decimals, unsigned
from culm.spark.batches.fields import Flags, Numbers, Offsets
from culm.spark.batches.payload import HELD, STATES, rank
from culm.spark.reading.inputs import packed
from culm.spark.report.numbers import PROOF_BYTES, Coverage
from culm.spark.report.stretches import Runs, encoded, magnitudes, union, unsigned_of
from culm.spark.runtime.columns import Batch, R, names, schema, table_of
from culm.spark.runtime.engine import Table
from culm.spark.verification.merge import LOG
from culm.spark.verification.verdicts import BAD_SIGNATURE, INVALID, UNVERIFIED, VERDICTS, VERIFIED
from culm.store.schema import from_sql, to_sql
from culm.types import Log, Run

CELLS = 96  # of a strip: about 10 pixels each on a large screen; more would not be seen, and make the page larger
WIDEST = Fraction(9, 10)  # of a strip that may be one stretch of missing numbers; the rest then still has 9 cells
BREAKS = 4  # in a strip: a log with more such gaps is seen to have gaps
_STEP_ROWS = 2**16  # that a step gets at once; each row takes some 200 bytes of memory
_NUMBER = r"\b(0x[0-9a-f]+|[0-9a-f]*[0-9][0-9a-f]*)\b"


def mapped(table: Table[Any], step: Callable[[pa.Table], pa.Table], into: type[R], *, by_log: bool = False) -> Table[R]:
    """What a step makes of portions of the rows, in any order.

    ``by_log``: sorted by log, and all rows of a log in one portion. They must fit into memory.
    """

    def made(batches: Iterable[pa.RecordBatch]) -> Iterator[Batch]:
        for portion in _portions(batches, by_log=by_log):
            found = step(portion).select(names(into)).cast(schema(into))
            yield from (Batch(into, batch) for batch in found.combine_chunks().to_batches())

    return (table.spread(LOG) if by_log else table).map(made, into, columnar=True)


def _portions(batches: Iterable[pa.RecordBatch], *, by_log: bool) -> Iterator[pa.Table]:
    """The same rows, many at once. ``by_log``: the last log waits, because the next rows may belong to it, too."""
    waiting: list[pa.Table] = []
    for together in packed(filter(len, batches), _STEP_ROWS, len):
        rows = pa.Table.from_batches(together)
        if end := int(_starts(rows)[-1]) if by_log else len(rows):
            yield pa.concat_tables([*waiting, rows.slice(0, end)]).combine_chunks()
            waiting = []
        waiting.append(rows.slice(end))
    if any(map(len, waiting)):
        yield pa.concat_tables(waiting).combine_chunks()


def logs_of(rows: pa.Table) -> pa.Table:
    """Whole logs of stretches, sorted by log, to ``LogNumbers``."""
    starts = _starts(rows)
    of = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(rows)))
    held, verified = (_runs(rows, of, worst) for worst in (len(VERDICTS) - 1, 0))
    newest, contiguous, numbers, good = np.zeros((4, len(starts)), np.uint64)
    np.maximum.at(newest, held.log, held.high)
    np.add.at(numbers, held.log, held.high - held.low + 1)
    np.add.at(good, verified.log, verified.high - verified.low + 1)
    first = verified.low == 1
    contiguous[verified.log[first]] = verified.high[first]
    entries, verdict, payload, size = *_columns(rows, "entries", "verdict", "payload"), rows.column("size")
    verdicts = {name: entries * (verdict == at) for at, name in enumerate(VERDICTS)}
    payloads = {f"payload_{name}": entries * (payload == at) for at, name in enumerate(STATES)}
    held_bytes = compute.if_else(payload == rank(HELD), size, pa.scalar(0, size.type))
    sizes = {"claimed_bytes": size, "held_bytes": held_bytes, "copies": rows.column("copies")}
    sums = {"entries": entries, **verdicts, "bad_signatures": entries * _is_bad(rows), **payloads, **sizes}
    found = pa.table({"of": of, **sums, "forked_at": rows.column("forked_at")}).group_by("of", use_threads=False)
    found = found.aggregate([*((name, "sum") for name in sums), ("forked_at", "min")])
    (log,) = _columns(rows, "log")
    whose = {"author": rows.column("author").take(starts), "log_id": decimals(unsigned(log[starts]))}
    ends = {"newest": decimals(newest), "contiguous": decimals(contiguous), "missing": decimals(newest - numbers)}
    counts = {"held": numbers, "held_verified": good, "forked_at": found.column("forked_at_min")}
    whole = pa.table({**whose, **ends, **counts, **{name: found.column(f"{name}_sum") for name in sums}})
    return whole.filter(compute.field("entries") > 0)


def _starts(rows: pa.Table) -> npt.NDArray[np.intp]:
    """Where each log begins."""
    return begins(encoded(rows.column("author"))[0], *_columns(rows, "log"))


def _columns(rows: pa.Table, *names: str) -> list[npt.NDArray[Any]]:
    return [np.asarray(rows.column(name).fill_null(0)) for name in names]


def _is_bad(rows: pa.Table) -> Flags:
    return np.asarray(compute.equal(rows.column("reason"), BAD_SIGNATURE).fill_null(False))


def _runs(rows: pa.Table, of: Offsets, worst: int) -> Runs:
    """The numbers whose best verdict is at least as good as this position in ``VERDICTS``, in the logs ``of`` the rows.

    Entries with a bad signature have no part in this: anybody can make them, of any number.
    """
    verdict, entries, low, high = _columns(rows, "verdict", "entries", "low", "high")
    chosen = (verdict <= worst) & (entries > 0) & ~_is_bad(rows)
    return union(of[chosen], low[chosen], high[chosen])


def described(rows: pa.Table) -> pa.Table:
    """``LogNumbers`` to ``DescribedLog``. A query takes the columns that it needs."""
    newest, verified, entries = unsigned_of(rows, "newest", "held_verified", "entries")
    wrong = np.sum(_columns(rows, "payload_mismatch", "payload_size_mismatch"), axis=0)
    forked = np.asarray(rows.column("forked_at").is_valid()).astype(np.int64)
    trouble = np.sum([wrong, *_columns(rows, UNVERIFIED, INVALID)], axis=0)
    tens = verified * np.uint64(10) // np.maximum(newest, np.uint64(1))
    percent = pa.array(tens.astype(np.int64) * 10, mask=newest == 0)
    kind = {"percent": percent, "entry_digits": _digits(entries), "newest_digits": _digits(newest)}
    counts = {"logs": np.ones(len(rows), np.int64), "forked_logs": forked, "wrong_payloads": wrong}
    return _with(rows, trouble=pa.array(trouble, mask=trouble + forked == 0), **kind, **counts)


def untrusted(rows: pa.Table) -> pa.Table:
    """Stretches to ``Reasons``, without those that are verified."""
    rows = rows.filter(compute.not_equal(rows.column("verdict"), VERDICTS.index(VERIFIED)))
    verdict = pa.array(VERDICTS).take(rows.column("verdict"))
    return _with(rows, verdict=verdict, reason=rows.column("reason").fill_null("no reason given"))


def shortened(rows: pa.Table) -> pa.Table:
    """``Fork`` with no more of a proof than the page shows."""
    return _with(rows, proof=compute.binary_slice(rows.column("proof"), 0, PROOF_BYTES))


def rejected(rows: pa.Table) -> pa.Table:
    """Rejects to ``RejectNumbers``: a row for each, to be summed. Numbers in reasons become ``#``."""
    reason = compute.replace_substring_regex(rows.column("reason").cast(pa.string()), _NUMBER, "#")
    return _with(rows, reason=reason, rejects=np.ones(len(rows), np.int64), first_offset=rows.column("offset"))


def _with(rows: pa.Table, **columns: Any) -> pa.Table:  # noqa: ANN401 - arrays of either kind
    """The rows with more columns, or others of these names."""
    return pa.table({**dict(zip(rows.column_names, rows.columns, strict=True)), **columns})


def _digits(numbers: Numbers) -> Offsets:
    """How many decimal digits each number has; 0 has none. Nine magnitudes have the same number of digits."""
    return (magnitudes(numbers) + 8) // 9


# -- strips ---------------------------------------------------------------------------------------------------------
#
# A strip shows which numbers from 1 to the newest are held, to scale, in at most ``CELLS`` cells. That fails for a log
# with the entries 1 to 10 and one entry at 2^64 - 1: to scale, the ten entries are invisible. So a strip is broken
# where one stretch of missing numbers would take more than ``WIDEST`` of it, at most ``BREAKS`` times. What is left out
# is cut away before the rest is cut into cells.


def within(rows: pa.Table, wanted: Collection[Log]) -> pa.Table:
    """The stretches of the wanted logs only."""
    keys = {"author": [author for author, _ in wanted], "log": [to_sql(log_id) for _, log_id in wanted]}
    logs = pa.table(keys, pa.schema([("author", pa.binary()), ("log", pa.int64())]))
    return rows.join(logs, [*keys], join_type="left semi")


def coverage(rows: pa.Table) -> pa.Table:
    """Whole logs of stretches, sorted by log, to ``Coverage``: their strips."""
    logs = (rows.slice(low, high - low) for low, high in pairwise([*_starts(rows).tolist(), len(rows)]))
    return table_of(Coverage, chain.from_iterable(map(_cells, logs)))


def _cells(rows: pa.Table) -> Iterator[Coverage]:
    """The cells of one log's strip."""
    found = (_runs(rows, np.zeros(len(rows), np.int64), worst) for worst in range(len(VERDICTS)))
    by_verdict = [of_numbers.Runs(zip(runs.low.tolist(), runs.high.tolist(), strict=True)) for runs in found]
    log = rows.column("author")[0].as_py(), from_sql(rows.column("log")[0].as_py())
    for first, last in cells(spans(by_verdict[-1])):
        lacking = (sum(high - low + 1 for low, high in runs.outside(first, last)) for runs in by_verdict)
        verified, better, every = (last - first + 1 - count for count in lacking)
        yield Coverage(*log, first, last, verified, better - verified, every - better, last - first + 1 - every)


def spans(held: of_numbers.Runs) -> list[Run]:
    """The parts of a log that its strip shows."""
    _, newest = held.extent or (0, 0)
    drawn, left_out = newest, []
    for first, last in sorted(held.outside(1, newest), key=lambda gap: (gap[0] - gap[1], gap[0]))[:BREAKS]:
        missing = last - first + 1
        if drawn <= CELLS or missing <= WIDEST * drawn:
            break
        left_out.append((first, last))
        drawn -= missing
    return of_numbers.Runs(left_out).outside(1, newest)


def cells(parts: Sequence[Run]) -> list[Run]:
    """The cells of these parts, at most ``CELLS`` together. All have one width, so that lengths compare."""
    numbers = sum(last - first + 1 for first, last in parts)
    width = max(1, -(-numbers // (CELLS - len(parts) + 1)))
    return [(begin, min(begin + width - 1, last)) for first, last in parts for begin in range(first, last + 1, width)]
