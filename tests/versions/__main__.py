"""``make versions BASE=COMMIT``: whether homes, files and sessions of another version and of this one fit together.

Both versions run as programs, with the same interpreter and the same dependencies. The other one is taken out of git
into ``build/compare``, as for ``make compare``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from bench.compare import ROOT, checkout, resolve
from bench.harness import say
from tests.versions.checks import CHECKS
from tests.versions.programs import CommandFailed, Version

_TOO_NEW = "use a newer Culm"  # What a version says of a store with tables that it does not know.


def main(arguments: list[str]) -> int:
    """Run all checks, in both directions; 1 if one failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.versions", description=__doc__)
    parser.add_argument("--base", required=True, help="a commit of the other version")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"only these checks, of: {' '.join(CHECKS)}")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - CHECKS.keys():
        parser.error(f"there is no check {', '.join(sorted(unknown))}; there are: {', '.join(CHECKS)}")
    commit = resolve(options.base)
    base, tree = Version(commit[:12], checkout(commit) / "src"), Version("this tree", ROOT / "src")
    failed = 0
    for name in options.names or CHECKS:
        for one, other in ((base, tree), (tree, base)):
            with tempfile.TemporaryDirectory(prefix="culm-versions-") as folder:
                try:
                    CHECKS[name](one, other, Path(folder))
                    outcome = "fits"
                except (AssertionError, CommandFailed) as error:
                    is_older = _TOO_NEW in str(error)
                    failed += not is_older
                    outcome = "refused, as the store is of a newer version" if is_older else f"FAILED: {error}"
            say(f"{name}: {one.name} and then {other.name}: {outcome}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
