"""What the commands print: data to stdout (text, or JSON with ``--json``), everything else to stderr.

So a script can read the data from a pipe while notes and progress still reach the person. Text from elsewhere
(payloads, file names) is never printed raw to a terminal, because escape sequences in it could change what the person
sees.
"""

import argparse
import errno
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, BinaryIO

from culm.errors import ConfigError, StoreFull
from culm.staging import is_named_pipe, staged_file, sync

if TYPE_CHECKING:
    from rich.progress import Progress

_AROUND = 2  # Lines of a terminal beside the rows of a table: its heading, and the next prompt.


def print_json(value: Any) -> None:  # noqa: ANN401 - any JSON value
    """Print one JSON value on a line of its own, at once, so that a reading program need not wait for the buffer."""
    import json  # noqa: PLC0415 - ``culm check`` is there in a moment because it imports only what it uses

    print(json.dumps(value), flush=True)


def print_result(arguments: argparse.Namespace, value: Any, *lines: str) -> None:  # noqa: ANN401 - any JSON value
    """Print what a command has done: a value with ``--json``, otherwise lines for people."""
    if arguments.json:
        print_json(value)
    else:
        print(*lines, sep="\n")


def note(text: str) -> None:
    """Print a line for people to stderr, so that it does not mix with data on stdout."""
    print(text, file=sys.stderr, flush=True)


def print_table(
    arguments: argparse.Namespace,
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    right: Sequence[str] = (),
) -> None:
    """Print a table to stdout. Columns named in ``right`` are right-aligned.

    On a terminal its lines are cut to the width, and one that is longer than the terminal is shown by ``$PAGER``.
    """
    texts = [list(map(str, row)) for row in rows]
    if not sys.stdout.isatty():
        _print_plainly([list(columns), *texts], [column in right for column in columns])
        return
    from rich.console import Console  # noqa: PLC0415 - rich takes longer to load than most commands run
    from rich.table import Table  # noqa: PLC0415

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", no_wrap=True)
    for row in texts:
        table.add_row(*row)
    console = Console(markup=False, highlight=False, emoji=False)
    if len(texts) + _AROUND <= console.height or not (pager := [] if arguments.no_pager else _pager()):
        console.print(table)
        return
    with console.capture() as captured:
        console.print(table)
    _page(pager, captured.get())


def _pager() -> list[str]:
    """The command by which long lists are shown; empty if they are not."""
    import shlex  # noqa: PLC0415 - only a long list on a terminal needs it

    given = os.environ.get("PAGER")
    try:
        words = shlex.split("less" if given is None else given)
    except ValueError:  # A quotation mark that is not closed.
        return []
    return [] if words == ["cat"] or os.environ.get("TERM") == "dumb" else words


def _page(pager: list[str], text: str) -> None:
    """Show a text by a pager; print it if the pager cannot be started."""
    import subprocess  # noqa: PLC0415 - as above

    # less: end where all fits on the screen (F), show colours (R), leave what was shown on the screen (X).
    environment = {"LESS": "FRX", **os.environ}
    try:
        process = subprocess.Popen(pager, stdin=subprocess.PIPE, text=True, env=environment)  # noqa: S603 - the user's
    except OSError:
        sys.stdout.write(text)
        return
    assert process.stdin is not None  # noqa: S101 - for the type checker
    with suppress(BrokenPipeError, KeyboardInterrupt), process.stdin as pipe:  # The person has seen enough.
        pipe.write(text)
    # Control-C is for the pager, which perhaps ends a search with it. This process must not leave the terminal to both.
    while process.poll() is None:
        with suppress(KeyboardInterrupt):
            process.wait()


def _print_plainly(rows: Sequence[Sequence[str]], right: Sequence[bool]) -> None:
    """The same for a pipe or a file: no colours, and a line for each row, however long, because scripts read it."""
    from rich.cells import cell_len  # noqa: PLC0415 - the width of a character on a terminal: 0, 1 or 2

    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        padded = []
        for text, width, is_right in zip(row, widths, right, strict=True):
            space = " " * (width - cell_len(text))
            padded.append(space + text if is_right else text + space)
        print("  ".join(padded).rstrip())


def counted(count: int, noun: str) -> str:
    """A number of things: ``1 entry``, ``2 entries``. The last word of ``noun`` becomes the plural."""
    if count != 1:
        noun = f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2] not in "aeou" else f"{noun}s"
    return f"{count} {noun}"


class Stages:
    """The progress of a job on Spark: a line for each stage, and on a terminal a bar of its finished tasks."""

    def __init__(self) -> None:
        from rich.console import Console  # noqa: PLC0415

        self._console = Console(stderr=True)
        self._progress: Progress | None = None
        self._title = ""

    def __call__(self, line: str) -> None:
        """Announce that a stage begins."""
        self._title = line
        self._stop()
        note(line)

    def tasks(self, done: int, total: int) -> None:
        """Show ``done`` of ``total`` tasks of the stage; 0 in total ends the bar."""
        if not total or not self._console.is_terminal:
            self._stop()
            return
        if self._progress is None:
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

            self._progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.completed:.0f} of {task.total:.0f} tasks"),
                TimeElapsedColumn(),
                console=self._console,
                transient=True,
            )
            self._progress.add_task(self._title)
            self._progress.start()
        self._progress.update(self._progress.task_ids[0], completed=done, total=total)

    def _stop(self) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = None


@contextmanager
def open_input(name: str) -> Iterator[BinaryIO]:
    """A file to read, ``-`` for stdin; ``ConfigError`` if it cannot be read."""
    if name == "-":
        yield sys.stdin.buffer
        return
    if is_named_pipe(name):
        raise ConfigError(f"cannot read {name}: it is a named pipe; give - and read it from stdin: < {name}")
    with ExitStack() as stack:
        try:
            file = stack.enter_context(open(name, "rb"))  # noqa: PTH123 - without pathlib, see ``print_json``
            file.peek(1)  # Some files can be opened, but fail at the first byte.
        except OSError as error:
            raise ConfigError(f"cannot read {name}: {error.strerror}") from None
        yield file


@contextmanager
def open_output(name: str) -> Iterator[BinaryIO]:
    """A file to write, ``-`` for stdout, that appears only when it is complete and on the disk.

    ``ConfigError`` if it cannot be written, ``StoreFull`` if the disk is full.
    """
    if name == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    from pathlib import Path  # noqa: PLC0415 - see ``print_json``

    path = Path(name)
    if path.is_dir() or not path.name:
        raise ConfigError(f"cannot write {path}: it is a directory")
    try:
        with staged_file(path) as staged:
            with staged.open("wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            staged.replace(path)
            sync(path.absolute().parent)
    except OSError as error:
        kind = StoreFull if error.errno in (errno.ENOSPC, errno.EDQUOT) else ConfigError
        raise kind(f"cannot write {path}: {error.strerror}") from None
