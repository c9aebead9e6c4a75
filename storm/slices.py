"""Which seeds were run, and what came of them: a line of JSON for each slice, only ever appended.

Nobody has an afternoon for ten thousand seeds at once. So they are run in slices, whenever a machine has nothing better
to do (``--next``), and ``storm/slices.jsonl`` says which are done. A seed is run once this way, and again only by its
number.

Each line has ``kind`` (``nodes``: whole nodes, ``proposals``: two endpoints of that protocol alone), ``version`` (the
git commit, with a ``+`` where files differed from it), ``first``, ``count``, ``cpu`` (seconds) and ``failed`` (seeds).
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path

from culm.ranges.runs import Runs

FILE = Path(__file__).with_name("slices.jsonl")
FRESH = 1_000_000  # Seeds from here on are those that nobody has looked at while the code was written.
_ROOT = FILE.parent.parent


@dataclass(frozen=True, slots=True)
class Slice:
    """Some seeds in a row, and what came of them."""

    kind: str
    version: str
    first: int
    count: int
    cpu: float
    failed: tuple[int, ...] = ()


def read(file: Path = FILE) -> list[Slice]:
    """All slices so far."""
    lines = file.read_text().splitlines() if file.exists() else []
    return [Slice(**{**values, "failed": tuple(values["failed"])}) for values in map(json.loads, lines)]


def append(done: Slice, file: Path = FILE) -> None:
    """Write a line for a slice."""
    with file.open("a") as out:
        out.write(json.dumps({**asdict(done), "cpu": round(done.cpu, 1)}) + "\n")


def following(kind: str, file: Path = FILE) -> int:
    """The first fresh seed of a kind that was not run yet."""
    done = Runs((each.first, each.first + each.count - 1) for each in read(file) if each.kind == kind)
    run = done.around(FRESH)
    return FRESH if run is None else run[1] + 1


def summary(file: Path = FILE) -> str:
    """What was run in sum, a line for each kind."""
    slices, lines = read(file), []
    for kind in dict.fromkeys(each.kind for each in slices):
        mine = [each for each in slices if each.kind == kind]
        failed = sorted({seed for each in mine for seed in each.failed})
        sums = f"{sum(each.count for each in mine):,} seeds, {sum(each.cpu for each in mine) / 60:.0f} min of CPU"
        lines.append(f"{kind}: {sums}, {len(failed)} failed{''.join(f' {seed}' for seed in failed)}")
        lines.append(f"  next: {following(kind, file)}")
    return "\n".join(lines) or "no slices yet"


def version() -> str:
    """The commit of these files, or ``unknown`` outside a git checkout."""
    git = ["git", "-C", str(_ROOT)]
    try:
        commit = subprocess.run([*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=True)
        changed = subprocess.run(
            [*git, "status", "--porcelain", "--untracked-files=no", "src"], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return commit.stdout.strip() + ("+" if changed.stdout.strip() else "")
