"""The programs in ``examples/`` do what they say."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from culm import Identity, Node, Store, author_text
from tests.node.links import run_really
from tests.node.peers import until
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator

EXAMPLES = Path(__file__).parents[1] / "examples"
PROGRAMS = ("audit_log", "chat", "mirror", "react", "sensor")


def loaded(name: str) -> Any:
    """An example as a module."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def during(program: Awaitable[None], condition: Any) -> None:
    """Run a program until something is the case, then end it as Ctrl-C does."""
    task = asyncio.ensure_future(program)
    waiting = asyncio.ensure_future(until(condition))
    await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        waiting.cancel()
        task.result()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_stands_at_the_top(name: str) -> None:
    """Each example says what it shows and how it is run."""
    text = loaded(name).__doc__
    assert "\nShows: " in text
    assert f"python examples/{name}.py" in text


@pytest.mark.parametrize("name", ["chat", "mirror", "react"])
def test_wrong_arguments(name: str) -> None:
    """Called wrongly, an example says how it is run."""
    result = subprocess.run([sys.executable, EXAMPLES / f"{name}.py"], capture_output=True, text=True, check=False)
    assert (1, True) == (result.returncode, f"python examples/{name}.py" in result.stderr)


@pytest.mark.slow
def test_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Every step of ``make demo`` but the kill and Spark holds, with logs of a few entries."""
    demo = loaded("demo")
    for name, value in (("LOGS", {1: 7, 2: 6, 3: 7}), ("BIG_BYTES", 100_000), ("TOTAL", 21)):
        monkeypatch.setattr(demo, name, value)
    demo.publish(tmp_path)
    server, url = demo.serve(tmp_path)
    try:
        demo.sync_again(tmp_path, url, 0)
        demo.compare(tmp_path)
        demo.refuse_forgery(tmp_path)
    finally:
        server.kill()
        server.communicate()
    assert 8 == capsys.readouterr().out.count("\n  ok: ")


class Person:
    """Somebody at a terminal with the chat."""

    def __init__(self, folder: Path, name: str, *peer: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(EXAMPLES / "chat.py"), name, *peer],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
        )
        self.address = self.hears().rpartition(" ")[2]

    def says(self, text: str) -> None:
        """Type a line."""
        assert self.process.stdin is not None
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def hears(self) -> str:
        """The next line that is shown."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")

    def leaves(self) -> tuple[int, str, str]:
        """End the input: exit code, what else was shown, and errors."""
        output, errors = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, output, errors


@pytest.fixture
def people(tmp_path: Path) -> Iterator[list[Person]]:
    """Alice listens; Bob and Carol know her address only."""
    alice = Person(tmp_path, "alice")
    made = [alice, *(Person(tmp_path, name, alice.address) for name in ("bob", "carol"))]
    yield made
    for person in made:
        person.process.kill()
        person.process.communicate()


def test_chat(people: list[Person], tmp_path: Path) -> None:
    """Three people in three terminals read each other, one also what was said before; no text controls a terminal."""
    alice, bob, carol = people
    bob.says("hello")
    assert ["bob: hello"] * 2 == [alice.hears(), carol.hears()]
    alice.says("welcome\x1b[2J")
    assert ["alice: welcome?[2J"] * 2 == [bob.hears(), carol.hears()]
    assert (0, "", "") == carol.leaves()
    bob.says("carol?")
    assert "bob: carol?" == alice.hears()

    carol = Person(tmp_path, "carol", alice.address)
    assert {"bob: hello", "alice: welcome?[2J", "bob: carol?"} == {carol.hears() for _ in range(3)}
    assert [(0, "", "")] * 3 == [person.leaves() for person in (carol, bob, alice)]


@pytest.mark.slow
def test_sensor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Everything measured is at the station although the link breaks; of that the sensor keeps no payload."""
    sensor = loaded("sensor")
    run_really(lambda: sensor.measure_and_send(tmp_path, sensor.FlakyLink(60_000)))
    assert "the sensor keeps 0 payloads" in capsys.readouterr().out.splitlines()[-1]
    with Store(tmp_path / "sensor.db") as sent, Store(tmp_path / "station.db") as received:
        (log,) = (log for log in sent.logs() if log.payloads == 0)
        entries = list(received.entries((log.author, log.log_id)))
        assert sensor.HOURS + 1 == log.entries == len(entries)
        assert all(stored.payload_complete for stored in entries)
        assert sensor.PICTURE in {stored.entry.size for stored in entries}


def test_audit_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The auditor accepts what is honest, refuses what was changed, and finds the clerk's second story."""
    loaded("audit_log").main(tmp_path)
    honest, changed, first, second = capsys.readouterr().out.splitlines()
    assert "authentic and complete, entries 1 to 3" in honest
    assert "refused: the payload does not match its entry" in changed
    assert "authentic and complete, entries 1 to 4" in first
    assert "two stories from entry 4 on" in second


def test_mirror(tmp_path: Path) -> None:
    """Everything becomes a file, what is large and what comes later, too; started again it goes on where it was."""
    mirror, folder = loaded("mirror").mirror, tmp_path / "mirror"
    peer = Node.open(store=tmp_path / "peer.db", identity=Identity.create(), clump="garden")

    def files() -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in folder.glob("*/1/*") if path.suffix == ""}

    async def main() -> None:
        async with peer:
            url = await peer.listen("culm://127.0.0.1:0")
            await peer.append(1, "seed")
            await peer.append(1, b"tree" * 100_000)
            await during(mirror(folder, "garden", url), lambda: len(files()) == 2)
            assert {"1": b"seed", "2": b"tree" * 100_000} == files()

            (folder / author_text(peer.author) / "1" / "1").unlink()
            await peer.append(1, "fruit")
            await during(mirror(folder, "garden", url), lambda: "3" in files())
            assert {"2": b"tree" * 100_000, "3": b"fruit"} == files()

    folder.mkdir()
    run_really(main)


def test_react(tmp_path: Path) -> None:
    """Each high reading is answered once, whether it came while the program ran, before, or while it was away."""
    react = loaded("react").react
    watched = Node.open(store=tmp_path / "watched.db", identity=Identity.create(), clump="react example")
    alarms: list[int] = []

    async def listen() -> None:
        async for entry in watched.subscribe(since="0", with_payload=True):
            payload = await watched.payload(entry)
            if entry.author != watched.author:
                alarms.append(json.loads(payload)["entry"])

    async def main() -> None:
        async with watched:
            listening = asyncio.create_task(listen())
            arguments = str(tmp_path / "home"), f"{watched.name}/5", await watched.listen("culm://127.0.0.1:0")
            for value in (20, 31, 25):
                await watched.append(5, str(value))
            await during(react(*arguments), lambda: alarms == [2])
            await watched.append(5, "32")
            await watched.append(6, "99")
            await during(react(*arguments), lambda: alarms == [2, 4])
            await watched.append(5, "33")
            await during(react(*arguments), lambda: alarms == [2, 4, 5])
            listening.cancel()

    run_really(main)
