"""The list of a release's files: the payload of its entry, and a file that ``sha256sum --check`` reads.

One list for people, for ``sha256sum`` and for the log means that nothing has to be compared by hand. Lines that begin
with ``#`` are comments to ``sha256sum``; they have the version, the commit and the sizes.
"""

from __future__ import annotations

import re
from hashlib import sha256
from pathlib import Path

from release.tree import Tree

NAME = "SHA256SUMS"
_FIRST = re.compile(r"# Culm (\S+)\n")


def written(tree: Tree, folder: Path) -> str:
    """The list of the files of a folder."""
    files = sorted(path for path in folder.iterdir() if path.name != NAME)
    lines = [
        f"# Culm {tree.version}",
        f"# commit {tree.commit}",
        f"# SOURCE_DATE_EPOCH {tree.epoch}",
        *(f"# {path.stat().st_size} bytes {path.name}" for path in files),
        *(f"{sha256(path.read_bytes()).hexdigest()}  {path.name}" for path in files),
    ]
    return "\n".join(lines) + "\n"


def version_in(text: str) -> str | None:
    """The version that a list is of; None if the text is no such list."""
    found = _FIRST.match(text)
    return found[1] if found else None
