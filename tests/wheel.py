"""``python -m tests.wheel WHEEL``: whether a built wheel holds what belongs into it, and nothing else.

Git is the reference: all of ``src`` that is committed, the package's metadata, and the bundle for browsers, which is
built and never committed. ``--bundle``: without the bundle the wheel is wrong, too.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import zipfile
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[1]
BUNDLE = "culm/node/status/page/culm.js"
_METADATA = {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}
_MOST_BUNDLE = 200_000  # Bytes; four times what it has. It is minified.
_EXPORTS = ("follow", "bestCheck")  # What the status page and the example import from it.


def complaints(wheel: Path, *, needs_bundle: bool) -> list[str]:
    """What is wrong with a wheel, a line each."""
    found = []
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        bundle = archive.read(BUNDLE) if BUNDLE in names else None
    inside = {"/".join(PurePosixPath(name).parts[1:]) for name in names if ".dist-info/" in name}
    listed = subprocess.run(["git", "ls-files", "-z", "src"], cwd=ROOT, capture_output=True, check=True, text=True)
    expected = {name.removeprefix("src/") for name in listed.stdout.split("\0") if name}
    packed = {name for name in names if ".dist-info/" not in name} - {BUNDLE}
    found += [f"it lacks {name}" for name in sorted(expected - packed)]
    found += [f"it has {name}, which is not committed" for name in sorted(packed - expected)]
    found += [f"its metadata lack {name}" for name in sorted(_METADATA - inside)]
    if bundle is None:
        found += ["it lacks the bundle for browsers: make wheel builds it where node and npm are"] * needs_bundle
    elif len(bundle) > _MOST_BUNDLE or not all(name.encode() in bundle for name in _EXPORTS):
        found.append(f"{BUNDLE} is not the bundle that make web builds")
    return found


def main() -> None:
    """Judge a wheel; exit code 1 if anything is wrong with it."""
    parser = argparse.ArgumentParser(prog="python -m tests.wheel", description=__doc__)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--bundle", action="store_true", help="the bundle for browsers must be in it")
    options = parser.parse_args()
    found = complaints(options.wheel, needs_bundle=options.bundle)
    with zipfile.ZipFile(options.wheel) as archive:
        has_bundle = BUNDLE in archive.namelist()
        size, count = options.wheel.stat().st_size, len(archive.namelist())
    said = found or [f"{count} files, {size:,} bytes, {'with' if has_bundle else 'without'} the bundle for browsers"]
    sys.stdout.write("".join(f"{options.wheel.name}: {line}\n" for line in said))
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
