"""The ``culm`` command at no cost of starting: one process has imported it and forks for each call.

Importing takes longer than most commands do, and the pages call many. What is called gets the caller's arguments,
folder, environment and open files, and is a process of its own::

    python -m tests.docs.warm FOLDER      # makes FOLDER/culm, to be put on the PATH, and answers until its stdin ends
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import traceback
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from culm.cli import main
from culm.cli.command import Commands

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]

# The caller: hands over what it has, then passes on signals and waits for the exit code.
_CALLER = """#!{python} -IS
import json, os, signal, socket, sys
line = socket.socket(socket.AF_UNIX)
line.connect({path!r})
call = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
socket.send_fds(line, [len(call).to_bytes(4, "big")], [0, 1, 2])
line.sendall(call)
answer = line.makefile("r")
child = int(answer.readline())
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda number, frame: os.kill(child, number))
sys.exit(int(answer.readline() or 70))
"""


@contextmanager
def started(folder: Path) -> Iterator[Path]:
    """A folder with the ``culm`` command, warm, as long as the block lasts."""
    command = [sys.executable, "-m", "tests.docs.warm", str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "ready\n"
        yield folder
        process.stdin.close()


def make_caller(folder: Path, path: str) -> None:
    """Write the program that is called in place of ``culm``."""
    file = folder / "culm"
    file.write_text(_CALLER.format(python=sys.executable, path=path))
    file.chmod(0o755)


def serve(folder: Path) -> None:
    """Answer calls until stdin ends."""
    path = str(folder / "socket")
    Commands().loaded()  # imports every command
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        make_caller(folder, path)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
        while True:
            line, _ = listener.accept()
            head, files, _, _ = socket.recv_fds(line, 4, 3)
            if os.fork() == 0:
                listener.close()
                _answer(line, int.from_bytes(head, "big"), files)
            for file in files:
                os.close(file)
            line.close()


def _answer(line: socket.socket, length: int, files: list[int]) -> None:
    """Be the command: this process is the caller's, and ends here."""
    code = 70
    try:
        arguments, folder, environment = json.loads(line.makefile("rb").read(length))
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
        # A thread of the process that forked holds the lock of its ``sys.stdin``, and here nobody would release it.
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - the file behind a number
        line.sendall(b"%d\n" % os.getpid())
        try:
            code = main(arguments)
        except SystemExit as exit_:
            code = int(exit_.code or 0)
        sys.stdout.flush()
    except BaseException:  # noqa: BLE001 - nothing may go back to the loop that forked
        traceback.print_exc()
    finally:
        line.sendall(b"%d\n" % code)
        os._exit(code)


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
