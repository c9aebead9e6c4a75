"""The subject of a report: the results of one verification, or everything that a state knows.

Both have verdicts, proofs of forks, and rejects, as tables of either engine.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import parquet

from culm.errors import ConfigError, CulmError
from culm.spark.runtime.columns import R, Unsigned, names
from culm.spark.runtime.engine import Engine, Table
from culm.spark.runtime.folders import SUMMARY
from culm.spark.verification.forks import Fork, forks
from culm.spark.verification.gather import Reject
from culm.spark.verification.state import State
from culm.spark.verification.steps import pronounced
from culm.spark.verification.verdicts import Verdict


class Judged(NamedTuple):
    """What a report needs of ``verification.verdicts.Verdict``; no other columns are read."""

    author: bytes
    log_id: Unsigned
    seqnum: Unsigned
    size: Unsigned
    payload: str
    verdict: str
    reason: str | None
    copies: int


class Source(NamedTuple):
    """What a report is about: the results of one verification, or a state (``of_state``).

    ``said`` has the counts and times in the summary of the verification or the manifest of the state; nothing in it is
    to be relied on, since it is a file of JSON. ``has_proofs``: there are proofs of forks, not only reasons that name
    forks. ``entries`` and ``rejected`` count verdicts and rejects; in a state the rejects of all runs.

    ``tables`` gives the verdicts, with the columns of ``Judged`` and perhaps more, the proofs of forks, None if none
    were written, and the rejects, which a state only counts. ``CulmError`` if a file cannot be read.
    """

    folder: Path
    said: Mapping[str, object]
    of_state: bool
    has_proofs: bool
    entries: int
    rejected: int
    tables: Callable[[Engine], tuple[Table[Any], Table[Fork] | None, Table[Reject]]]


def source_of(folder: Path) -> Source:
    """The subject in a folder. ``ConfigError`` if it holds neither the results of a verification nor a state."""
    if (folder / "manifest.json").is_file() and not (folder / SUMMARY).exists():
        return _of_state(State.open(folder))
    for needed in ("verdicts", "rejects", SUMMARY):
        if not (folder / needed).exists():
            raise ConfigError(f"{folder}: not the results of culm spark verify, nor a state: there is no {needed}")
    try:
        said = json.loads((folder / SUMMARY).read_bytes())
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        raise ConfigError(f"{folder / SUMMARY}: not a summary of culm spark verify, or damaged")
    return _of_results(folder, said)


def _of_results(folder: Path, said: Mapping[str, object]) -> Source:
    has_proofs = (folder / "forks").is_dir()

    def tables(engine: Engine) -> tuple[Table[Any], Table[Fork] | None, Table[Reject]]:
        proofs = _stored(engine, folder / "forks", Fork) if has_proofs else None
        return _stored(engine, folder / "verdicts", Judged), proofs, _stored(engine, folder / "rejects", Reject)

    entries, rejected = rows_in(folder / "verdicts"), rows_in(folder / "rejects")
    return Source(folder, said, False, has_proofs, entries, rejected, tables)


def _of_state(state: State) -> Source:
    def tables(engine: Engine) -> tuple[Table[Any], Table[Fork] | None, Table[Reject]]:
        verdicts = state.judged(engine).map(partial(pronounced, everything=True), Verdict)
        return verdicts, forks(*state.forked(engine)).kept(), engine.load([], Reject, "offset")

    said = {**state.totals, "signatures": state.signatures}
    entries, rejected = (state.totals.get(name, 0) for name in ("entries", "rejects"))
    return Source(state.folder, said, True, True, entries, rejected, tables)


def _stored(engine: Engine, folder: Path, table: type[R]) -> Table[R]:
    """The rows of a folder; ``CulmError`` if one of its files cannot be read or lacks a column."""
    for path, found in _files(folder):
        if lacking := {*names(table)}.difference(found.schema.names):
            raise CulmError(f"{path}: a table without the column {min(lacking)!r}; verify the inputs again")
    return engine.stored(folder, table)


def rows_in(folder: Path) -> int:
    """How many rows a folder of Parquet files has; only the ends of the files are read. ``CulmError`` if that fails."""
    return sum(found.num_rows for _, found in _files(folder))


def _files(folder: Path) -> Iterator[tuple[Path, parquet.FileMetaData]]:
    for path in sorted(folder.glob("*.parquet")):
        try:
            yield path, parquet.read_metadata(path)
        except (pa.ArrowException, OSError) as error:
            raise CulmError(f"{path}: not a Parquet file, or damaged; verify the inputs again") from error
