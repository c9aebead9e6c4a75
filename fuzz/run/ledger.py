"""What was fuzzed: one line of JSON for each stretch of work, only ever appended.

What was kept (``--keep``) is added up, by version and target, in the repository's own ledger, ``fuzz/ledger.jsonl``.

Each line has ``target``, ``version`` (the git commit, with a ``+`` where files differed from it), ``cpu`` (seconds),
``inputs`` and ``findings`` (names of the files saved). Processes append side by side: a line is one write.
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from fuzz.target import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

NAME = "ledger.jsonl"
KEPT = ROOT / "fuzz"


@dataclass(frozen=True)
class Stretch:
    """Some work on one target: CPU seconds, inputs run, findings made."""

    target: str
    version: str
    cpu: float
    inputs: int
    findings: tuple[str, ...] = ()


def append(folder: Path, stretch: Stretch) -> None:
    """Write a line at the end of the ledger in that folder."""
    handle = os.open(folder / NAME, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(handle, _line(stretch).encode())
    finally:
        os.close(handle)


def _line(stretch: Stretch) -> str:
    return json.dumps({**asdict(stretch), "cpu": round(stretch.cpu, 2)}) + "\n"


def read(folder: Path) -> list[Stretch]:
    """All lines so far; one that a crash of the machine cut is left out."""
    file = folder / NAME
    if not file.exists():
        return []
    found = []
    for line in file.read_text().splitlines():
        try:
            values = json.loads(line)
        except ValueError:
            continue
        found.append(Stretch(**{**values, "findings": tuple(values["findings"])}))
    return found


def keep(data: Path, kept: Path = KEPT) -> None:
    """Add what is in one folder's ledger to that of the repository, and begin the first one anew."""
    sums: dict[tuple[str, str], Stretch] = {}
    for item in (*read(kept), *read(data)):
        before = sums.get((item.version, item.target), Stretch(item.target, item.version, 0.0, 0))
        sums[item.version, item.target] = _joined(before, item)
    new = kept / f"{NAME}.new"
    new.unlink(missing_ok=True)
    new.write_text("".join(_line(item) for item in sums.values()))
    new.replace(kept / NAME)
    (data / NAME).unlink(missing_ok=True)


def _joined(before: Stretch, item: Stretch) -> Stretch:
    return Stretch(
        item.target,
        item.version,
        before.cpu + item.cpu,
        before.inputs + item.inputs,
        before.findings + item.findings,
    )


def by_target(stretches: Iterable[Stretch]) -> dict[str, Stretch]:
    """The sum of each target; its version is the latest."""
    sums: dict[str, Stretch] = {}
    for item in stretches:
        before = sums.get(item.target, Stretch(item.target, "", 0.0, 0))
        sums[item.target] = _joined(before, item)
    return sums


def version() -> str:
    """The commit of these files, or ``unknown`` outside a git checkout."""
    git = ["git", "-C", str(ROOT)]
    try:
        commit = subprocess.run([*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=True)
        changed = subprocess.run(
            [*git, "status", "--porcelain", "--untracked-files=no", "src", "fuzz", "native"],
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return commit.stdout.strip() + ("+" if changed.stdout.strip() else "")
