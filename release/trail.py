"""The release log: an entry for each version, in a Culm home that is outside of the repository.

Everything goes through the command ``culm``, as a user would do it: what can be checked with it was made with it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from release import Refused, run, sums

LOG = 1
PROOF, EXPORT = "culm-{version}.proof", "culm-releases.bundle"
_SETTING = "CULM_RELEASE_HOME"


@dataclass(frozen=True, slots=True)
class Trail:
    """The release log of a home. ``author``: the key that signs it."""

    home: Path
    author: str

    @property
    def log(self) -> str:
        """The log's name, ``AUTHOR/LOG``."""
        return f"{self.author}/{LOG}"

    def released(self) -> dict[str, tuple[int, str]]:
        """The versions that the log has, each with the number of its entry and its list of files."""
        found = {}
        for seq in range(1, self.newest() + 1):
            text = _culm(self.home, "show", f"{self.log}/{seq}", "--payload")
            if (version := sums.version_in(text)) is not None:
                found[version] = (seq, text)
        return found

    def newest(self) -> int:
        """The number of the log's last entry; 0 before the first release."""
        logs: list[dict[str, Any]] = json.loads(_culm(self.home, "logs", "--json"))
        return max((log["newest"] for log in logs if (log["author"], log["log_id"]) == (self.author, LOG)), default=0)

    def append(self, version: str, listed: Path, *, continue_here: bool) -> int:
        """Write a version's list of files as the next entry; its number. Once: the same list twice is one entry.

        ``Refused`` if the log has another list for this version, because two lists cannot both be the release.
        """
        if (known := self.released().get(version)) is not None:
            if known[1] != listed.read_text():
                raise Refused(
                    f"entry {known[0]} of the release log is version {version} already, with other files. A version is"
                    " released once: raise __version__ in src/culm/__init__.py"
                )
            return known[0]
        flags = ["--continue-here"] * continue_here
        # Not through _culm: a sealed identity asks for its passphrase on the terminal.
        command = [*_command(self.home), "append", str(LOG), str(listed), *flags]
        done = subprocess.run(command, env=_environment(), stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            raise Refused(
                "culm append failed, as it says above, so the release log has no entry for this version. Nothing was"
                " released"
            )
        return int(done.stdout.strip().rpartition("/")[2])

    def give(self, version: str, seq: int, folder: Path) -> None:
        """Write the proof of a version's entry, and the whole log, beside the files."""
        _culm(self.home, "prove", f"{self.log}/{seq}", "-o", str(folder / PROOF.format(version=version)))
        _culm(self.home, "export", "--bundle", self.log, "-o", str(folder / EXPORT))
        _culm(
            self.home,
            *("check", str(folder / PROOF.format(version=version))),
            *("--author", self.author, "--payload", str(folder / sums.NAME)),
        )


def opened(named: str | None, repository: Path) -> Trail:
    """The release log of a home, verified; ``Refused`` if there is none, or its log cannot go on."""
    if not named:
        raise Refused(
            f"{_SETTING} is not set. A release is an entry of a log that is signed with a key outside of the"
            " repository. Name the home that has the key: make release CULM_RELEASE_HOME=DIR. Before the first release"
            " make one: culm --home DIR init --passphrase. docs/howto/release.md says how to look after it"
        )
    home = Path(named).expanduser().resolve()
    if home.is_relative_to(repository.resolve()):
        raise Refused(f"{_SETTING} is {home}, inside the repository. The release key must stay outside: move the home")
    if not (home / "store.db").is_file():
        raise Refused(f"{_SETTING} is {home}, and there is no home. Make one: culm --home {home} init --passphrase")
    author = _culm(home, "identity", "show").strip()
    trail = Trail(home, author)
    if trail.newest():
        # A fork, and any damage, is an exit code of this command.
        verify = [*_command(home), "verify", trail.log]
        run(
            verify,
            home,
            _environment(),
            fails=f"the release log in {home} is forked or damaged, so no release can be added to it. If it is"
            " damaged, restore a backup; if it is forked, somebody else has the key: docs/howto/release.md. culm verify"
            " says",
        )
    return trail


def _command(home: Path) -> list[str]:
    return [sys.executable, "-m", "culm.cli", "--home", str(home)]


def _environment() -> dict[str, str]:
    """Without the settings of the maker's own home."""
    return {name: value for name, value in os.environ.items() if name != "CULM_HOME"}


def _culm(home: Path, *arguments: str) -> str:
    fails = f"culm {' '.join(arguments[:2])} failed with the release log in {home}"
    return run([*_command(home), *arguments], home, _environment(), fails=fails)
