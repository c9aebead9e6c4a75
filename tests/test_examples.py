"""The programs in ``examples/`` do what they say."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import re
import subprocess
import sys
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from culm import Identity, Store, author_text
from culm.views import LiveView, ViewFile
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from culm.testing import World

EXAMPLES = Path(__file__).parents[1] / "examples"
PROGRAMS = ("audit_log", "chat", "forum", "mirror", "react", "sensor", "todo")


def loaded(name: str) -> Any:
    """An example as a module."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def during(world: World, program: Awaitable[None], condition: Callable[[], object]) -> None:
    """Run a program until something is the case, then end it as Ctrl-C does."""
    task = asyncio.ensure_future(program)
    waiting = asyncio.ensure_future(world.until(condition, 600))
    await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        waiting.cancel()
        task.result()
    waiting.result()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_stands_at_the_top(name: str) -> None:
    """Each example says what it shows and how it is run."""
    text = loaded(name).__doc__
    assert "\nShows: " in text
    assert f"python examples/{name}.py" in text


@pytest.mark.parametrize("name", ["chat", "forum", "mirror", "react", "todo"])
def test_wrong_arguments(name: str) -> None:
    """Called wrongly, an example says how it is run."""
    for arguments in (["x", "y", "z"] if name == "forum" else [], ["--help"]):
        call = [sys.executable, str(EXAMPLES / f"{name}.py"), *arguments]
        result = subprocess.run(call, capture_output=True, text=True, check=False)
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
    """Somebody at a terminal with the chat, or another program that many use together."""

    def __init__(self, folder: Path, name: str, *peer: str, program: str = "chat") -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(EXAMPLES / f"{program}.py"), name, *peer],
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
async def test_a_chat_through_a_bad_network(
    culm_world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a friend says while the network is down is shown when it is up again; what is typed reaches the friend."""
    monkeypatch.chdir(culm_world.folder)
    typed: asyncio.Queue[str] = asyncio.Queue()
    shown: list[str] = []

    def lines() -> list[str]:
        shown.extend(capsys.readouterr().out.splitlines())
        return shown

    chatting = asyncio.create_task(loaded("chat").chat("alice", None, typed.get))
    await culm_world.until(lines)
    friend = await culm_world.node("bob", clump="chat example")
    await friend.connect(shown[0].rpartition(" ")[2])
    await friend.append(1, "bob: hello")
    await culm_world.until(lambda: "bob: hello" in lines())
    culm_world.cut(friend)
    await friend.append(1, "bob: is anybody there?")
    typed.put_nowait("yes\n")
    await asyncio.sleep(60)
    assert "bob: is anybody there?" not in lines()
    culm_world.mend(friend)
    await culm_world.until(lambda: "bob: is anybody there?" in lines())
    news = friend.subscribe(since="0", with_payload=True)
    async with asyncio.timeout(60):
        while (entry := await anext(news)).author == friend.author:
            pass
    assert await friend.payload(entry) == b"alice: yes"
    typed.put_nowait("")
    await chatting


@pytest.mark.slow
async def test_sensor(culm_world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """Everything measured is at the station although the link breaks; of that the sensor keeps no payload."""
    sensor, folder = loaded("sensor"), culm_world.folder
    await sensor.measure_and_send(folder, sensor.FlakyLink(60_000))
    assert "the sensor keeps 0 payloads" in capsys.readouterr().out.splitlines()[-1]
    with Store(folder / "sensor.db") as sent, Store(folder / "station.db") as received:
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


async def test_mirror(culm_world: World) -> None:
    """Everything becomes a file, what is large and what comes later, too; started again it goes on where it was."""
    mirror, folder = loaded("mirror").mirror, culm_world.folder / "mirror"
    peer = await culm_world.node(clump="garden")

    def files() -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in folder.glob("*/1/*") if path.suffix == ""}

    await peer.append(1, "seed")
    await peer.append(1, b"tree" * 100_000)
    await during(culm_world, mirror(folder, "garden", peer.url), lambda: len(files()) == 2)
    assert {"1": b"seed", "2": b"tree" * 100_000} == files()

    (folder / author_text(peer.author) / "1" / "1").unlink()
    await peer.append(1, "fruit")
    await during(culm_world, mirror(folder, "garden", peer.url), lambda: "3" in files())
    assert {"2": b"tree" * 100_000, "3": b"fruit"} == files()


async def test_react(culm_world: World) -> None:
    """Each high reading is answered once, whether it came while the program ran, before, or while it was away."""
    react = loaded("react").react
    watched = await culm_world.node(clump="react example")
    alarms: list[int] = []

    async def listen() -> None:
        async for entry in watched.subscribe(since="0", with_payload=True):
            payload = await watched.payload(entry)
            if entry.author != watched.author:
                alarms.append(json.loads(payload)["entry"])

    listening = asyncio.create_task(listen())
    arguments = str(culm_world.folder / "home"), f"{watched.name}/5", watched.url
    for value in (20, 31, 25):
        await watched.append(5, str(value))
    await during(culm_world, react(*arguments), lambda: alarms == [2])
    await watched.append(5, "32")
    await watched.append(6, "99")
    await during(culm_world, react(*arguments), lambda: alarms == [2, 4])
    await watched.append(5, "33")
    await during(culm_world, react(*arguments), lambda: alarms == [2, 4, 5])
    listening.cancel()


@pytest.mark.slow
async def test_an_alarm_through_a_bad_network(culm_world: World) -> None:
    """A reading that is made while the network is down is answered when it is up again."""
    watched = await culm_world.node(clump="react example")
    arguments = str(culm_world.folder / "home"), f"{watched.name}/5", watched.url

    async def readings() -> None:
        await watched.append(5, "31")
        await asyncio.sleep(5)
        culm_world.cut(watched)
        await watched.append(5, "32")
        await asyncio.sleep(60)
        assert 1 == sum(log.entries for log in await watched.logs() if log.author != watched.author)
        culm_world.mend(watched)

    async def alarms() -> bool:
        return 2 == sum(log.entries for log in await watched.logs() if log.author != watched.author)

    changing = asyncio.create_task(readings())
    await during(culm_world, loaded("react").react(*arguments), alarms)
    await changing


# -- the to-do list --------------------------------------------------------------------------------------------------


async def agreed(lists: list[LiveView], count: int) -> list[Any]:
    """The rows of items once all lists have the same ones, and so many."""
    while True:
        for each in lists:
            await each.update()
        first, *others = [await each.read("SELECT * FROM items ORDER BY id") for each in lists]
        if others == [first] * len(others) and len(first) == count:
            return first
        await asyncio.sleep(0.01)


@pytest.mark.slow
async def test_one_list_for_three(culm_world: World) -> None:
    """Three authors have one list. If all of them finish an item, all lists say that the same one did."""
    todo, folder = loaded("todo"), culm_world.folder
    nodes = [await culm_world.node(name) for name in ("alice", "bob", "carol")]
    async with AsyncExitStack() as stack:
        lists = []
        for number, node in enumerate(nodes):
            lists.append(await stack.enter_async_context(LiveView(node, folder / f"{number}-view.db", todo.TODO)))
        milk, bread = await todo.add(nodes[0], "milk"), await todo.add(nodes[1], "bread")
        await asyncio.gather(*(node.connect(nodes[0].url) for node in nodes[1:]))
        await agreed(lists, 2)
        await asyncio.gather(*(todo.finish(node, milk) for node in nodes), todo.finish(nodes[2], "no item"))
        for payload in (b"\xff", b"[]", b'{"do": []}', b'{"do": "add", "text": "\\ud800"}', b"[" * 10_000):
            await nodes[1].append(todo.ITEMS, payload)
        last = await todo.add(nodes[1], "the last")
        by = {item: done_by for item, _, _, done_by in await agreed(lists, 3)}
        assert by.pop(milk) in {node.author for node in nodes}
        assert by == {bread: None, last: None}
        for each in lists:
            assert {item for item, _ in await todo.open_items(each)} == set(by)


def test_a_list_in_two_terminals(tmp_path: Path) -> None:
    """People type what there is to do and what is done, and see the list change; no text controls a terminal."""
    alice = Person(tmp_path, "alice", program="todo")
    bob = Person(tmp_path, "bob", alice.address, program="todo")
    try:
        alice.says("add milk\x1b[2J")
        seen = bob.hears()
        assert seen == alice.hears()
        assert seen.endswith(" milk?[2J")
        bob.says("done nothing")
        assert bob.hears() == "no open item, or more than one, begins like this"
        bob.says("what")
        assert bob.hears() == "add TEXT, done ITEM, or list"
        bob.says("list")
        assert bob.hears() == seen
        bob.says("done " + seen.partition(" ")[0])
        bob.says("add bread")
        while not bob.hears().endswith(" bread"):
            pass
        while not alice.hears().endswith(" bread"):
            pass
        for person in (bob, alice):
            code, _, errors = person.leaves()
            assert (code, errors) == (0, "")
    finally:
        for person in (alice, bob):
            person.process.kill()
            person.process.communicate()


# -- the forum -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_forum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Messages wait for what they answer, a late log changes nothing in the end, two stories take their thread down."""
    forum = loaded("forum")
    monkeypatch.setattr(forum, "ROUND", 5)
    forum.main(tmp_path, 223)
    rate, missing, come, two, anew = capsys.readouterr().out.splitlines()
    assert rate.endswith(" messages a second")
    assert not missing.endswith(": 0 messages wait")
    assert come == "it has come: 0 wait, and the tables are the same: True"
    gone, stay, wait = (int(number.replace(",", "")) for number in re.findall(r"\d+", two))
    assert gone > 0
    assert gone + stay + wait == 223
    assert anew == "made anew, the tables are the same: True"


def test_strange_messages_of_a_forum(tmp_path: Path) -> None:
    """Whatever a member writes, the forum goes on: what is no message is left out, an answer to it is rejected."""
    forum, member = loaded("forum"), Identity(bytes(32))
    with Store(tmp_path / "store.db") as store, ViewFile(tmp_path / "view.db", forum.FORUM_VIEW, store) as view:
        strange = store.append(member, forum.FORUM, [b"[]"])
        payloads = [b"7", b'{"text": 7}', b'{"text": "\\ud800"}', b'{"text": "", "answers": 7}', b"[" * 10_000]
        payloads += [b'{"text": "", "answers": "x"}', forum.message("to nothing", strange), forum.message("title")]
        entries = [store.append(member, forum.FORUM, [payload]) for payload in payloads]
        store.append(member, forum.FORUM, [forum.message("an answer", entries[-1])])
        changes = view.update()
        assert [reason for _, reason in changes.rejected] == ["it answers an entry that is no message"]
        assert view.read("SELECT title, answers, members FROM threads") == [("title", 1, 1)]
        assert [text for (text,) in view.read("SELECT text FROM messages ORDER BY rowid")] == ["title", "an answer"]
