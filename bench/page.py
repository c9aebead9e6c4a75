"""``python -m bench.page``: writes the measured figures into the pages that show them.

``python -m bench --record [NAME ...]`` keeps what a benchmark gave in ``docs/figures.json``, with the commit and the
day. A page says where its tables go by a pair of comments, and everything between them is made here::

    <!-- figures: verification -->
    <!-- end of figures -->

So no figure is copied by hand, a table never mixes two runs of a benchmark, and the day of each is there to see. The
README shows ten of them, which are chosen here.
"""

from __future__ import annotations

import json
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.harness import Figure, from_json, to_json
from culm import native

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "docs" / "figures.json"
PAGES = (ROOT / "docs" / "performance.md", ROOT / "README.md")
CHOSEN = (
    ("verification", "verify, one core", "verify entries, one core"),
    ("verification", "import into SQLite", "import into SQLite"),
    ("library", "append_many", "append entries in bulk, each durable"),
    ("library", "random reads of entries", "read an entry at random"),
    ("intervals", "intervals, 100,000 entries: rate", "`intervals://`: replicate 100,000 entries"),
    ("intervals", "intervals, 64 payloads of 4 MiB: rate", "`intervals://`: 64 payloads of 4 MiB"),
    ("replication", "replicate 100,000", "`bushbaby://`: replicate 100,000 entries"),
    ("sessions", "10 of 100,000 logs, culm://", "`culm://`: find and fetch 10 changed logs of 100,000"),
    (
        "negentropy",
        "negentropy 1,000,000: 1,000 differences, no limit, sparing, native core: CPU",
        "negentropy: find 1,000 differences of 1,000,000",
    ),
    ("library", "subscription with payloads", "follow a log, with its payloads"),
)
"""Those of the README: the benchmark, the figure's name there, and what the README calls it."""
_TABLE = re.compile(r"(<!-- figures: (.*?) -->\n).*?(<!-- end of figures -->\n)", re.DOTALL)


def keep(name: str, figures: Sequence[Figure], path: Path = RECORD) -> None:
    """Keep what a benchmark gave, in place of what it gave before; ``ValueError`` as of ``clean_commit``."""
    record = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    record[name] = {
        "commit": clean_commit(),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "core": native.core is not None,
        "figures": [to_json(figure) for figure in figures],
    }
    path.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def clean_commit(root: Path = ROOT) -> str:
    """The commit whose code runs; ``ValueError`` if there are changes that are in none.

    Nobody could repeat their figures, because no commit has the code that gave them.
    """
    known = commit(root)
    if known.endswith("+"):
        raise ValueError(
            f"Figures are kept of a commit only, but the working tree differs from {known[:-1]}. "
            "Commit your changes, or put them aside with `git stash`, and measure again."
        )
    return known


def commit(root: Path = ROOT) -> str:
    """The commit whose code runs; with a plus sign if there are changes that are in none, figures on pages apart."""
    git = ["git", "-C", str(root)]
    known = subprocess.run([*git, "rev-parse", "--short=8", "HEAD"], stdout=subprocess.PIPE, check=True, text=True)
    pages = [f":!{path.relative_to(ROOT)}" for path in (RECORD, *PAGES)]
    changed = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", ".", *pages], check=False).returncode
    return known.stdout.strip() + "+" * bool(changed)


def written(text: str, record: dict[str, Any]) -> str:
    """A page with its tables as the record has them; ``KeyError`` names a benchmark that the record lacks."""
    return _TABLE.sub(lambda found: found[1] + _table(found[2], record) + found[3], text)


def _table(names: str, record: dict[str, Any]) -> str:
    if names == "chosen":
        rows = [(title, _named(record, benchmark, name)) for benchmark, name, title in CHOSEN]
        return "".join(["| | figure | beside |\n|---|---|---|\n", *(_row(title, figure) for title, figure in rows)])
    parts = []
    for name in names.split():
        one = record[name]
        core = "with the native core" if one["core"] else "without the native core"
        head = f"Commit `{one['commit']}`, {one['date']}, {core}: `make bench BENCH_ARGS={name}`\n\n"
        head += "| what | figure | beside | runs |\n|---|---|---|---|\n"
        figures = [from_json(figure) for figure in one["figures"]]
        parts.append(head + "".join(_row(figure.name, figure, _spread(figure)) for figure in figures))
    return "\n" + "\n".join(parts) + "\n"


def _named(record: dict[str, Any], benchmark: str, name: str) -> Figure:
    for figure in record[benchmark]["figures"]:
        if figure["name"] == name:
            return from_json(figure)
    raise KeyError(f"{benchmark}: {name}")


def _row(*cells: str | Figure) -> str:
    texts: list[str] = []
    for cell in cells:
        texts += [cell] if isinstance(cell, str) else [f"{number(cell.value)} {cell.unit}", _beside(cell)]
    return f"| {' | '.join(texts)} |\n"


def _beside(figure: Figure) -> str:
    return figure.limit if figure.ratio is None else f"{number(figure.ratio)} x {figure.limit}"


def _spread(figure: Figure) -> str:
    return f"{number(figure.spread[0])} to {number(figure.spread[1])}" if figure.spread else ""


def number(value: float) -> str:
    """A number as people read it: three digits, or all in front of the point."""
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.{1 if abs(value) >= 10 else 2}f}"


def main() -> None:
    """Write the tables of all pages anew."""
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    for page in PAGES:
        page.write_text(written(page.read_text(encoding="utf-8"), record), encoding="utf-8")


if __name__ == "__main__":
    main()
