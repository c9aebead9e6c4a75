"""The subject of a report: the results of one verification, or everything that a state knows.

Both have verdicts, proofs of forks, and rejects, as tables of either engine.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import parquet

from culm.errors import ConfigError, CulmError
from culm.results import SUMMARY
from culm.spark.runtime.columns import Row, combined, names
from culm.spark.runtime.engine import Engine, Table
from culm.spark.runtime.output import other_version
from culm.spark.verification.forks import Fork, forks
from culm.spark.verification.gather import Reject
from culm.spark.verification.state import State
from culm.spark.verification.verdicts import Verdict, pronounced

_NEEDED = ("author", "log_id", "seqnum", "size", "payload", "verdict", "reason", "copies")
Judged = combined("Judged", __name__, Verdict, only=_NEEDED)
"""What a report needs of the verdicts; no other columns are read."""


class Source(NamedTuple):
    """What a report is about: the results of one verification, or a ``state``.

    ``said`` has the counts and times in the summary of the verification or the manifest of the state; nothing in it is
    to be relied on, since it is a file of JSON. ``entries`` and ``rejected`` count verdicts and rejects; in a state the
    rejects of all runs.
    """

    folder: Path
    said: Mapping[str, object]
    entries: int
    rejected: int
    state: State | None = None

    @property
    def other(self) -> str | None:
        """A sentence about results that another version of Culm made; None for a state, which does not say."""
        return None if self.state else other_version(self.said)

    def tables(self, engine: Engine) -> tuple[Table[Any], Table[Fork] | None, Table[Reject]]:
        """The verdicts, with the columns of ``Judged`` and perhaps more, the proofs of forks, and the rejects.

        There are no proofs if none were written. A state only counts rejects.
        """
        if self.state is not None:
            verdicts = self.state.judged(engine).map(lambda rows: pronounced(rows, everything=True), Verdict)
            return verdicts, forks(*self.state.forked(engine)).kept(), engine.load([], Reject, "offset")
        proofs = engine.stored(self.folder / "forks", Fork) if (self.folder / "forks").is_dir() else None
        return engine.stored(self.folder / "verdicts", Judged), proofs, engine.stored(self.folder / "rejects", Reject)


def source_of(folder: Path) -> Source:
    """The subject in a folder. ``ConfigError`` if it holds neither the results of a verification nor a state.

    ``CulmError`` if a file of the results cannot be read.
    """
    if (folder / "manifest.json").is_file() and not (folder / SUMMARY).exists():
        state = State.open(folder)
        said = {**state.totals, "signatures": state.signatures}
        return Source(state.folder, said, state.totals.get("entries", 0), state.totals.get("rejects", 0), state)
    for needed in ("verdicts", "rejects", SUMMARY):
        if not (folder / needed).exists():
            raise ConfigError(f"{folder}: not the results of culm spark verify, nor a state: there is no {needed}")
    try:
        found = json.loads((folder / SUMMARY).read_bytes())
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ConfigError(f"{folder / SUMMARY}: not a summary of culm spark verify, or damaged")
    _rows_in(folder / "forks", Fork)
    return Source(folder, found, _rows_in(folder / "verdicts", Judged), _rows_in(folder / "rejects", Reject))


def _rows_in(folder: Path, table: type[Row]) -> int:
    """How many rows a table of Parquet files has; ``CulmError`` if one cannot be read or lacks a column."""
    rows = 0
    for path in sorted(folder.glob("*.parquet")):
        try:
            found = parquet.read_metadata(path)
        except (pa.ArrowException, OSError) as error:
            raise CulmError(f"{path}: not a Parquet file, or damaged; verify the inputs again") from error
        if lacking := {*names(table)}.difference(found.schema.names):
            raise CulmError(f"{path}: a table without the column {min(lacking)!r}; verify the inputs again")
        rows += found.num_rows
    return rows
