"""``culm append LOG_ID --lines FILE``: an entry for each line, also of a pipe that never ends.

*Groups.* To bring a commit to the disk takes as long as to write a hundred small entries, so lines share commits. A
file is cut into groups of up to 1,000 lines or 4 MiB. From a pipe a group is what has arrived: a single line is stored
at once, and a quick writer fills larger groups while the disk is busy. No line waits for others.

*What a crash keeps.* A group is stored whole or not at all, and groups in the order of the lines. So the log ends with
the lines up to some place, and has no gap. What was reported is on the disk. After a crash, the number of new entries
says how many lines are in the log.
"""

import argparse
from collections.abc import Iterator
from typing import BinaryIO

from culm.bamboo import Entry
from culm.cli.identity import ask_passphrase
from culm.cli.output import counted, note, open_input, print_json
from culm.cli.progress import progress_bar
from culm.cli.sealing import sealer_for
from culm.errors import ConfigError, CulmError
from culm.node.home import Home
from culm.store import GROUP_BYTES, Draft, grouped
from culm.wire.places import author_text, log_text

_READ = 1024 * 1024  # Bytes asked for at once: some groups of short lines.
MAX_LINE = 4 * GROUP_BYTES
"""The longest line in bytes. A line is in memory as a whole, and an endless one must not fill the memory."""


def append_lines(arguments: argparse.Namespace) -> int:
    """Append an entry for each line of a file or of stdin."""
    home = Home.find(arguments.home)
    done = _Done(arguments)
    with open_input(arguments.file or "-") as file, home.store() as store, progress_bar("appending") as bar:
        identity = home.identity(arguments.identity, ask_passphrase)
        sealer = sealer_for(store, identity, arguments)
        try:
            for lines in line_groups(file):
                if sealer is not None:
                    lines[:] = map(sealer.whole, lines)
                draft = Draft(identity, arguments.log_id, lines, continue_here=arguments.continue_here)
                done.add(_appended(store.append_each([draft])[0]))
                bar.update(done.entries, done.size)
        except BaseException:
            done.tell_the_rest()
            raise
    done.print()
    return 0


def _appended(result: list[Entry] | CulmError) -> list[Entry]:
    if isinstance(result, CulmError):
        raise result
    return result


def line_groups(file: BinaryIO) -> Iterator[list[bytes]]:
    """The lines of a file, without their newlines, in groups; ``ConfigError`` if one is longer than ``MAX_LINE``.

    An empty line is a line. The last one needs no newline.
    """
    number, begun = 0, bytearray()
    while chunk := file.read1(_READ):  # type: ignore[attr-defined]  # all that are opened have it
        whole, newline, rest = chunk.rpartition(b"\n")
        if newline:
            lines = (bytes(begun) + whole).split(b"\n")
            for group in grouped(lines):
                _check_length(group, number)
                number += len(group)
                yield group
            begun = bytearray()
        begun += rest
        _check_length([begun], number)
    if begun:
        yield [bytes(begun)]


def _check_length(lines: list[bytes] | list[bytearray], before: int) -> None:
    for number, line in enumerate(lines, before + 1):
        if len(line) > MAX_LINE:
            raise ConfigError(
                f"line {number} is longer than {MAX_LINE // 2**20} MiB: put it into a file of its own and append that"
            )


class _Done:
    """The entries that are on the disk, and how they are reported."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._ends: tuple[Entry, Entry] | None = None  # the first entry and the last
        self.entries = self.size = 0

    def add(self, entries: list[Entry]) -> None:
        """Take up the next entries, which are on the disk; with ``--json``, say so at once."""
        self._ends = (self._ends or entries)[0], entries[-1]
        self.entries += len(entries)
        self.size += sum(entry.size for entry in entries)
        if self._arguments.json:
            print_json({"type": "progress", "first": entries[0].seq, "last": entries[-1].seq, "entries": self.entries})

    def print(self) -> None:
        """Say what has been appended in all."""
        first, last = (entry.seq for entry in self._ends) if self._ends else (None, None)
        if self._arguments.json:
            author = author_text(self._ends[0].author) if self._ends else None
            about = {"type": "summary", "author": author, "log_id": self._arguments.log_id}
            print_json(about | {"first": first, "last": last, "entries": self.entries, "payload_bytes": self.size})
        elif self._ends and first and last:
            print(f"{log_text(self._ends[0].log)}/{first}..{last}")
            if others := last - first + 1 - self.entries:
                note(f"{counted(others, 'entry')} in between came from another program")
        else:
            note("there was no line, so nothing was appended")

    def tell_the_rest(self) -> None:
        """After an error: how far the lines got."""
        if self._ends:
            note(
                f"the log has the input up to line {self.entries}, which is entry {self._ends[1].seq};"
                f" go on with line {self.entries + 1}"
            )
