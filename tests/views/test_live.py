"""Views beside a running node, and views of programs that are killed."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from culm import Identity, Node, SQLiteStore
from culm.errors import StoreError
from culm.views import LiveView, ViewFile
from tests.node.links import run_really
from tests.views.thread import THREAD, log_of, payload


def test_following_a_node(tmp_path: Path) -> None:
    """A view follows what the program appends, and ends with the node."""

    async def main() -> None:
        node = Node.open(store=tmp_path / "store.db", identity=Identity(bytes(32)))
        async with node, LiveView(node, tmp_path / "view.db", THREAD) as live:
            texts: list[str] = []
            await node.append(1, payload("one"))
            async for changes in live:
                assert changes.applied
                texts = [text for (text,) in await live.read("SELECT text FROM messages ORDER BY text")]
                if len(texts) == 2:
                    break
                await node.append(1, payload("two"))
            assert texts == ["one", "two"]
            ended = aiter(live)
            assert not await live.update()
            await node.close()
            assert [changes async for changes in ended] == []

    run_really(main)  # threads are what this is about


def test_a_view_that_is_not_open(tmp_path: Path) -> None:
    """A live view is used inside ``async with`` only."""

    async def main() -> None:
        async with Node.open(store=tmp_path / "store.db", identity=Identity(bytes(32))) as node:
            with pytest.raises(RuntimeError, match="async with"):
                await LiveView(node, tmp_path / "view.db", THREAD).update()

    run_really(main)  # threads are what this is about


def test_a_view_that_cannot_be_opened(tmp_path: Path) -> None:
    """If the file is no view, the error comes out, the file stays as it is, and the live view is closed."""
    (tmp_path / "text").write_text("hello, this is no database at all, but a text of some length")

    async def main() -> None:
        async with Node.open(store=tmp_path / "store.db", identity=Identity(bytes(32))) as node:
            live = LiveView(node, tmp_path / "text", THREAD)
            with pytest.raises(StoreError, match="cannot be opened"):
                await live.__aenter__()
            with pytest.raises(RuntimeError):  # its thread takes nothing more
                await live.__aenter__()
            assert (tmp_path / "text").read_text().startswith("hello, this is no database")

    run_really(main)  # threads are what this is about


PROGRAM = """
import sys
from culm import SQLiteStore
from culm.views import ViewFile
from tests.views.thread import THREAD
with SQLiteStore(sys.argv[1], read_only=True) as store, ViewFile(sys.argv[2], THREAD, store) as view:
    while True:
        view.update()
        print("updated", flush=True)
"""


@pytest.mark.subprocess
@pytest.mark.slow
def test_kills(tmp_path: Path) -> None:
    """A program that is killed while it updates its view counts each entry once."""
    rng, log = random.Random(4), log_of(1)
    with SQLiteStore(tmp_path / "store.db") as store:
        for _ in range(6):
            call = [sys.executable, "-c", PROGRAM, str(tmp_path / "store.db"), str(tmp_path / "view.db")]
            with subprocess.Popen(call, stdout=subprocess.PIPE, text=True) as process:
                assert process.stdout is not None
                assert process.stdout.readline() == "updated\n"
                for number in range(200):
                    log.append(payload(f"line {number}"))
                store.add(log.items()[-200:])
                time.sleep(rng.random() / 10)  # the kill is to come at any moment of an update
                process.kill()
        with ViewFile(tmp_path / "view.db", THREAD, store) as view, ViewFile(tmp_path / "new.db", THREAD, store) as new:
            view.update()
            new.update()
            assert view.dump() == new.dump()
            assert view.read("SELECT count(*) FROM journal") == [(6 * 180,)]  # of 200 each, 20 end in 7
