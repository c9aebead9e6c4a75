"""Whether what a program says it did is on the disk by then: ``python -m crash.synced``, where strace is installed.

A kill shows nothing of that, since the system keeps what was written. So the program's calls to the system are traced:
whenever it prints, and when it ends, every file of its folder that was written must have been synced after that, and
every folder in which a name has appeared. SQLite's shared-memory file needs neither, nor does what was deleted.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from crash import material
from crash.victims import command, environment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_WRITES = ("write", "pwrite64", "pwritev", "pwritev2", "ftruncate")
_NAMES = "openat,rename,renameat,renameat2,link,linkat,unlink,unlinkat,rmdir,mkdir"
_LINE = re.compile(r"\d+ +(?P<call>\w+)\((?P<arguments>.*)\) += (?P<result>-?\d+)(?P<opened><.*>)?")
_FILE = re.compile(r"(?P<number>\d+)<(?P<path>[^>]*)>")
_PATH = re.compile(r'(?:(?:AT_FDCWD|\d+)<(?P<at>[^>]*)>, )?"(?P<path>[^"]*)"')


def is_there() -> bool:
    """Whether programs can be traced here."""
    strace = shutil.which("strace")
    return strace is not None and not subprocess.run([strace, "true"], capture_output=True, check=False).returncode


@dataclass
class Disk:
    """What is not on the disk of a folder: files by their content, folders by the names in them.

    ``known`` are the files there were before.
    """

    folder: Path
    known: set[Path]
    written: set[Path] = field(default_factory=set)
    named: set[Path] = field(default_factory=set)

    def follow(self, lines: Iterable[str]) -> Iterator[list[Path]]:
        """What is not on the disk at each moment at which the program printed, and at its end."""
        for line in lines:
            found = _LINE.match(line)
            if found is None or int(found["result"]) < 0:
                continue
            call, arguments = found["call"], found["arguments"]
            file = _FILE.match(arguments)
            if call == "write" and file is not None and file["number"] == "1":
                yield self.missing()
            elif call in _WRITES and file is not None:
                self._wrote(Path(file["path"]))
            elif call in ("fsync", "fdatasync") and file is not None:
                self.written.discard(Path(file["path"]))
                self.named.discard(Path(file["path"]))
            else:
                self._changed_names(call, arguments)
        yield self.missing()

    def missing(self) -> list[Path]:
        """What is not on the disk now."""
        return sorted(path for path in self.written | self.named if path.is_relative_to(self.folder))

    def _wrote(self, path: Path) -> None:
        if not path.name.endswith("-shm"):
            self.written.add(path)

    def _changed_names(self, call: str, arguments: str) -> None:
        paths = [Path(found["at"] or "/", found["path"]) for found in _PATH.finditer(arguments)]
        if call == "mkdir" or (call == "openat" and "O_CREAT" in arguments and paths[0] not in self.known):
            self._made(paths[0])
        elif call.startswith("link"):
            self._made(paths[1])
        elif call.startswith(("unlink", "rmdir")):
            self._gone(paths[0])
        elif call.startswith("rename"):
            self._moved(*paths)

    def _made(self, path: Path) -> None:
        self.known.add(path)
        if not path.name.endswith("-shm"):
            self.named.add(path.parent)

    def _gone(self, path: Path) -> None:
        self.known.discard(path)
        self.written.discard(path)
        self.named.discard(path)

    def _moved(self, source: Path, target: Path) -> None:
        """A file or a folder has another name; what is in it is as synced as before."""
        for paths in (self.known, self.written, self.named):
            moved = {path for path in paths if path.is_relative_to(source)}
            paths.difference_update(moved)
            paths.update(target / path.relative_to(source) for path in moved)
        self._made(target)


def unsynced(folder: Path, *arguments: object, codes: tuple[int, ...] = (0,)) -> list[Path]:
    """Run the command line, and name what of a folder was not on the disk when it printed, or ended.

    ``RuntimeError`` if it does not end with one of these exit codes.
    """
    disk = Disk(folder, {path for path in folder.rglob("*") if path.is_file()})
    with tempfile.NamedTemporaryFile("r", suffix=".trace") as trace:
        tracing = [
            "strace",
            "-f",
            "-y",
            "-s",
            "0",
            "-e",
            f"trace={_NAMES},{','.join(_WRITES)},fsync,fdatasync",
            "-o",
            trace.name,
        ]
        done = subprocess.run(
            [*tracing, *command("culm.cli", map(str, arguments))],
            capture_output=True,
            text=True,
            env=environment(),
            check=False,
        )
        if done.returncode not in codes:
            raise RuntimeError(f"{arguments}: exit code {done.returncode}: {done.stderr}")
        return sorted({path for moment in disk.follow(trace) for path in moment})


def commands(folder: Path, made: material.Material) -> Iterator[tuple[str, tuple[object, ...]]]:
    """Calls that promise something, one on top of the other, by their names."""
    home = folder / "home"
    large = folder / "large"
    large.write_bytes(bytes(3_000_000))
    key = made.readings.entries[0].author.hex()
    at_home = ("--home", home)
    yield "init", (*at_home, "init")
    yield "identity", (*at_home, "identity", "new", "other")
    yield "append", (*at_home, "append", "1", "--text", "small")
    yield "append, large", (*at_home, "append", "1", large)
    yield "append, large, again", (*at_home, "append", "1", large)
    yield "import", (*at_home, "import", made.bundle)
    yield "follow", (*at_home, "follow", key, "--clump", "x")
    yield "unfollow", (*at_home, "unfollow", key, "--clump", "x")
    yield "backup to a file", (*at_home, "backup", folder / "kept.tar")
    yield "backup to a folder", (*at_home, "backup", folder / "kept")
    yield "export", (*at_home, "export", "--bundle", "-o", folder / "logs")
    yield "restore", ("--home", folder / "again", "restore", folder / "kept.tar")
    film = made.films.entries[0]
    yield "forget", (*at_home, "forget", f"{film.author.hex()}/{film.log_id}/{film.seq}")


def main() -> int:
    """Try all commands; 1 if anything was not on the disk."""
    if not is_there():
        print("strace is not installed, or may not be used", file=sys.stderr)
        return 2
    failed = 0
    with tempfile.TemporaryDirectory(prefix="culm-synced-") as name:
        (Path(name) / "material").mkdir()
        (Path(name) / "work").mkdir()
        made = material.make(Path(name) / "material", 1)
        folder = Path(name) / "work"
        for what, arguments in commands(folder, made):
            missing = [str(path.relative_to(folder)) for path in unsynced(folder, *arguments, codes=(0, 1))]
            failed += bool(missing)
            print(f"{what:22} {'NOT on the disk: ' + ', '.join(missing) if missing else 'on the disk'}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
