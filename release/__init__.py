"""``make release``: the files of a version, built twice, checked, listed, and signed by an entry of a Bamboo log.

A download is worth as much as its reader's reason to believe that it is the one that was released. A signature of each
file says who made that file. It does not say that the maker released no other file of the same name, for somebody else
or at another time. So each release is an entry of one log, the *release log*, whose payload is the list of all files
with their digests. The entry is signed, and it links all releases into one history. If the maker, or a thief of the
key, shows two people two lists for one version, the log has a fork, and any two of its readers who compare find it.

The parts: ``tree`` says what is released and whether it may be, ``building`` makes and tries the files, ``contents``
lists what they are made of, ``sums`` is the list that is signed, ``trail`` is the release log.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


class Refused(Exception):
    """The release stops here; the text says why, and what to do."""


def run(
    command: Sequence[str | Path], folder: Path, environment: Mapping[str, str] | None = None, *, fails: str
) -> str:
    """Run a program; what it prints. ``Refused`` with ``fails`` and the program's last lines if it fails."""
    try:
        done = subprocess.run(command, cwd=folder, env=environment, stdout=-1, stderr=-1, text=True, check=False)
    except FileNotFoundError:
        raise Refused(f"{fails}: the program {command[0]} is not installed") from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()[-15:]
        raise Refused("\n".join([f"{fails}:", *(f"  {line}" for line in said)]))
    return done.stdout
