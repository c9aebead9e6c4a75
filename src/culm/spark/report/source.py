"""The subject of a report: the results of one verification, or everything that a state knows.

Both have verdicts, proofs of forks, and rejects, as tables of either engine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
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


def source_of(folder: Path) -> Source:
    """The subject in a folder. ``ConfigError`` if it holds neither the results of a verification nor a state."""
    if (folder / "manifest.json").is_file() and not (folder / SUMMARY).exists():
        return _Known(State.open(folder))
    for needed in ("verdicts", "rejects", SUMMARY):
        if not (folder / needed).exists():
            raise ConfigError(f"{folder}: not the results of culm spark verify, nor a state: there is no {needed}")
    try:
        said = json.loads((folder / SUMMARY).read_bytes())
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        raise ConfigError(f"{folder / SUMMARY}: not a summary of culm spark verify, or damaged")
    return Source(folder, said)


class Source:
    """What a report is about: the results of one verification.

    ``said`` has the counts and times in the summary of the verification or the manifest of the state; nothing in it is
    to be relied on, since it is a file of JSON. ``of_state``: the subject is a state.
    """

    of_state = False

    def __init__(self, folder: Path, said: Mapping[str, object]) -> None:
        self.folder = folder
        self.said = said

    @property
    def has_proofs(self) -> bool:
        """Whether there are proofs of forks, not only reasons that name forks."""
        return (self.folder / "forks").is_dir()

    def entries(self) -> int:
        """How many verdicts there are."""
        return rows_in(self.folder / "verdicts")

    def rejected(self) -> int:
        """How many rejects there are; in a state those of all runs."""
        return rows_in(self.folder / "rejects")

    def verdicts(self, engine: Engine) -> Table[Any]:
        """The verdicts, with the columns of ``Judged`` and perhaps more. ``CulmError`` if a file cannot be read."""
        return _stored(engine, self.folder / "verdicts", Judged)

    def forks(self, engine: Engine) -> Table[Fork] | None:
        """The proofs of forks; None if none were written."""
        return _stored(engine, self.folder / "forks", Fork) if self.has_proofs else None

    def rejects(self, engine: Engine) -> Table[Reject]:
        """The rejects. A state has none, as it only counts them."""
        return _stored(engine, self.folder / "rejects", Reject)


class _Known(Source):
    """A state: everything that it knows from all runs."""

    of_state = True
    has_proofs = True

    def __init__(self, state: State) -> None:
        super().__init__(state.folder, {**state.totals, "signatures": state.signatures})
        self._state = state

    def entries(self) -> int:
        return self._state.totals.get("entries", 0)

    def rejected(self) -> int:
        return self._state.totals.get("rejects", 0)

    def verdicts(self, engine: Engine) -> Table[Verdict]:
        return self._state.judged(engine).map(partial(pronounced, everything=True), Verdict)

    def forks(self, engine: Engine) -> Table[Fork]:
        return forks(*self._state.forked(engine)).kept()

    def rejects(self, engine: Engine) -> Table[Reject]:
        return engine.load([], Reject, "offset")


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
