"""The FastAPI program of docs/howto/web.md ends although readers wait, and goes on with each of them where it was."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.docs.pages import blocks, free_port
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "web.md"


@contextmanager
def served(folder: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """The program, and its port."""
    (program,) = [block.text for block in blocks(PAGE) if block.what == "app.py"]
    (folder / "app.py").write_text(program)
    port = free_port()
    call = [sys.executable, "-m", "uvicorn", "app:app", "--port", str(port)]
    process = subprocess.Popen(
        call, cwd=folder, env=os.environ | {"HOME": str(folder)}, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        while "running on" not in (line := process.stderr.readline()):
            assert line, "the program ended"
        yield process, port
    finally:
        process.kill()
        process.communicate()


def messages(port: int, cursor: str | None = None) -> Generator[tuple[str, str]]:
    """Read the stream: each message's id and text, until the server ends it in order."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as connection:
        connection.request("GET", "/messages", headers={} if cursor is None else {"Last-Event-ID": cursor})
        cursor = ""
        with connection.getresponse() as stream:
            while line := stream.readline().decode():
                kind, _, rest = line.strip().partition(": ")
                if kind == "id":
                    cursor = rest
                elif kind == "data":
                    yield cursor, json.loads(rest)["text"]


def post(port: int, text: str) -> None:
    """Send a message."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as connection:
        connection.request("POST", "/messages", text.encode())
        with connection.getresponse() as answer:
            assert answer.status == 200


@pytest.mark.slow
def test_stopping_while_readers_wait(tmp_path: Path) -> None:
    """At Ctrl-C or a stop by the service manager open streams end whole; their readers miss nothing of the next run."""
    with served(tmp_path) as (process, port):
        post(port, "first")
        stream = messages(port)
        cursor, text = next(stream)
        assert text == "first"
        process.send_signal(signal.SIGTERM)
        assert [] == list(stream)  # ``http.client`` would raise ``IncompleteRead`` for a stream that was cut off.
        process.communicate(timeout=PATIENCE)
        assert process.returncode in (0, -signal.SIGTERM)
    with served(tmp_path) as (process, port):
        post(port, "second")
        with closing(messages(port, cursor)) as stream:
            assert next(stream)[1] == "second"
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE)
