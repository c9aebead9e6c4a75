"""Negentropy over streams: a listener, callers, and peers that do not behave.

Specification: docs/specs/negentropy.md, "Over TCP".
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from culm.bamboo import encode_varu64
from culm.errors import CulmError, NetworkError, RemoteProtocolError
from culm.negentropy import Negentropy
from culm.node.interests.policy import Policy
from culm.node.negentropy import comparison
from culm.node.negentropy.comparison import Differences, Listening, ask_logs, compare, compare_stores, read_message
from culm.node.surroundings import Surroundings
from culm.store import View
from culm.testing import build_log
from tests.node.links import CONFIG, QUICK, Party, run, run_really, stream_pair

if TYPE_CHECKING:
    from collections.abc import Callable, Generator


def fill(parties: list[Party]) -> None:
    """Two stores that share most of a log and have others for themselves; one payload is forgotten."""
    alice, bob, _ = parties
    one, two, three = (build_log(length, seed=length) for length in (500, 60, 7))
    alice.store.add(one.items() + two.items())
    bob.store.add(one.items(one.entries[:450]) + three.items())
    bob.store.forget(one.entries[3].place)


def listen(party: Party, streams: Any, policy: Policy | None = None) -> asyncio.Task[bool]:
    """Answer one connection."""
    return asyncio.create_task(Listening(party.worker, replace(CONFIG, policy=policy or Policy()), streams).run())


async def compare_all(alice: Party, bob: Party, policy: Policy | None = None) -> dict[View, Differences | None]:
    """Compare every view over one connection, Alice with Bob, who listens."""
    near, far = await stream_pair()
    listening = listen(bob, far, policy)
    found = {view: await compare(alice.store, view, near, idle_seconds=5) for view in View}
    near[1].close()
    await listening
    return found


def test_all_views_over_one_connection(parties: list[Party]) -> None:
    """A connection carries one session after the other, with the results of a comparison side by side."""
    fill(parties)
    alice, bob, _ = parties
    found = run(lambda: compare_all(alice, bob))
    for view, differences in found.items():
        assert differences is not None
        locally = compare_stores(alice.store, bob.store, view)
        assert (set(differences.have), set(differences.need)) == (set(locally.have), set(locally.need))
    counts = [(len(found[view].have), len(found[view].need)) for view in View]  # type: ignore[union-attr]
    assert counts == [(50 + 60, 7), (50 + 60 + 1, 7), (2, 2)]


def test_logs_that_are_not_shared_have_no_part(parties: list[Party]) -> None:
    """What a clump keeps to itself, or does not want, cannot be seen in a comparison."""
    fill(parties)
    alice, bob, _ = parties
    hidden = next((log.author, log.log_id) for log in bob.store.logs() if log.entries == 7)
    other = next(log.author for log in bob.store.logs() if log.entries == 450)
    policy = Policy(unshared=frozenset({hidden}), block_authors=frozenset({other}))
    found = run(lambda: compare_all(alice, bob, policy))
    assert [len(found[view].need) for view in View] == [0, 0, 0]  # type: ignore[union-attr]
    assert [len(found[view].have) for view in View] == [560, 560, 2]  # type: ignore[union-attr]


@pytest.mark.slow
def test_messages_stay_below_their_limit(parties: list[Party], monkeypatch: pytest.MonkeyPatch) -> None:
    """A comparison that needs more than a message may hold takes more rounds and finds the same."""
    fill(parties)
    alice, bob, _ = parties
    bob.store.add(build_log(400, seed=99).items())
    whole = run(lambda: compare_all(alice, bob))[View.ENTRIES]
    monkeypatch.setattr(comparison, "FRAME_LIMIT", 4096)
    monkeypatch.setattr(comparison, "MAX_MESSAGE", 4096)
    limited = run(lambda: compare_all(alice, bob))[View.ENTRIES]
    assert whole is not None
    assert limited is not None
    assert (set(limited.have), set(limited.need)) == (set(whole.have), set(whole.need))
    assert limited.rounds > whole.rounds


def test_a_peer_that_only_knows_the_protocol(parties: list[Party]) -> None:
    """An implementation of the bare protocol can call: its session is about the entries."""
    fill(parties)
    alice, bob, _ = parties

    async def call() -> Negentropy:
        near, far = await stream_pair()
        listening = listen(bob, far)
        with alice.store.record_set(View.ENTRIES) as records:
            session = Negentropy(records)
            message: bytes | None = session.initiate()
            while message is not None:
                near[1].write(encode_varu64(len(message)) + message)
                answer = await read_message(near[0])
                assert answer is not None
                message = session.reconcile(answer)
        near[1].close()
        await listening
        return session

    session = run(call)
    assert (len(session.have), len(session.need)) == (110, 7)


def test_a_listener_without_views(parties: list[Party]) -> None:
    """A listener of another kind, which hangs up on a view's name, is compared by its entries."""
    fill(parties)
    alice, bob, _ = parties

    async def call() -> list[Differences | None]:
        found = []
        for view in (View.ENTRIES, View.HEADS):
            near, far = await stream_pair()
            with bob.store.record_set(View.ENTRIES) as records:
                answering = asyncio.create_task(bare(Negentropy(records), far))
                found.append(await compare(alice.store, view, near, idle_seconds=5))
                near[1].close()
                await answering
        return found

    async def bare(session: Negentropy, streams: Any) -> None:
        reader, writer = streams
        while message := await read_message(reader):
            if message[0] == 0:
                break
            answer = session.reconcile(message) or b""
            writer.write(encode_varu64(len(answer)) + answer)
        writer.close()

    entries, heads = run(call)
    assert entries is not None
    assert len(entries.need) == 7
    assert heads is None


def test_a_caller_may_ask_for_logs_and_go_on_by_intervals(parties: list[Party]) -> None:
    """Of heads a listener names the logs, in order, none it does not share; ``00 transfer`` ends the comparison.

    A listener that only compares hangs up at both.
    """
    _, bob, _ = parties
    bob.store.add(build_log(3, log_id=300).items())
    (log,) = [(summary.author, summary.log_id) for summary in bob.store.logs()]
    with bob.store.record_set(View.HEADS) as heads:
        head = heads.ids(0, 1)
    named = b"\x28\x00logs" + log[0] + b"\xf9\x01\x2c"
    cases = [
        (True, b"\x25\x00logs" + head, frozenset(), named),
        (True, b"\x25\x00logs" + bytes(32), frozenset(), b"\x05\x00logs"),
        (True, b"\x25\x00logs" + head, frozenset({log}), b"\x05\x00logs"),
        (True, b"\x06\x00logs\x01", frozenset(), b""),
        (False, b"\x25\x00logs" + head, frozenset(), b""),
        (False, b"\x09\x00transfer", frozenset(), b""),
    ]

    async def ask(question: bytes, unshared: frozenset[Any], *, moves: bool) -> bytes:
        near, far = await stream_pair()
        config = replace(CONFIG, policy=Policy(unshared=unshared))
        listening = asyncio.create_task(Listening(bob.worker, config, far, moves=moves).run())
        near[1].write(question)
        near[1].write_eof()
        answer: bytes = await near[0].read()
        near[1].close()
        with suppress(RemoteProtocolError):
            assert await listening is False
        return answer

    for moves, question, unshared, answer in cases:
        assert run(lambda q=question, u=unshared, m=moves: ask(q, u, moves=m)) == answer  # type: ignore[misc]

    async def transfer() -> tuple[bool, bytes]:
        near, far = await stream_pair()
        listening = asyncio.create_task(Listening(bob.worker, CONFIG, far, moves=True).run())
        near[1].write(b"\x09\x00transfer" + b"what follows is not read")
        goes_on = await listening
        found = await near[0].readexactly(10), await far[0].readexactly(24)
        near[1].close()
        far[1].close()
        return goes_on, b"".join(found)

    assert run(transfer) == (True, b"\x09\x00transferwhat follows is not read")


@pytest.mark.parametrize(
    "answer",
    [b"\x00logs" + bytes(33) * 2, b"\x00logs" + bytes(32), b"\x00logs" + bytes(32) + b"\xf8\x01", b"\x00log", b"\x61"],
)
def test_a_wrong_answer_about_logs(answer: bytes) -> None:
    """More logs than heads, a log that is cut, or other bytes: the caller says that it cannot use them."""

    async def call() -> None:
        near, far = await stream_pair()
        far[1].write(bytes([len(answer)]) + answer)
        try:
            with pytest.raises(RemoteProtocolError, match="about logs"):
                await ask_logs([bytes(32)], near, idle_seconds=5)
        finally:
            near[1].close()
            far[1].close()

    run(call)


# -- peers that do not behave ---------------------------------------------------------------------------------------


def ending(party: Party, data: bytes, *, close: bool = True) -> CulmError | None:
    """How a listener ends a connection that brings these bytes, and then nothing more."""

    async def call() -> CulmError | None:
        near, far = await stream_pair()
        listening = asyncio.create_task(
            Listening(party.worker, replace(CONFIG, limits=replace(QUICK, idle_seconds=0.3)), far).run()
        )
        near[1].write(data)
        if close:
            near[1].write_eof()
        try:
            await listening
        except CulmError as error:
            return error
        return None

    return run(call)


@pytest.mark.parametrize(
    ("data", "kind", "text"),
    [
        (b"\xff" * 9, RemoteProtocolError, "a message of 18446744073709551615 bytes"),
        (b"\xfa\x40\x00\x01", RemoteProtocolError, "a message of 4194305 bytes"),
        (b"\x00", RemoteProtocolError, "a message of 0 bytes"),
        (b"\xf8\x01", RemoteProtocolError, "the length of the peer's message cannot be decoded"),
        (b"\x05\x61", NetworkError, "in the middle of a message"),
        (b"\xff\x00", NetworkError, "in the middle of a message"),
        (b"\x05\x00nope", RemoteProtocolError, "a view that does not exist"),
        (b"\x03\x00\xff\xfe", RemoteProtocolError, "a view that does not exist"),
        (b"\x01\x70", RemoteProtocolError, "not a negentropy message"),
        (b"\x04\x61\x00\x00\x05", RemoteProtocolError, "mode 5"),
    ],
)
def test_wrong_bytes(parties: list[Party], data: bytes, kind: type[CulmError], text: str) -> None:
    """A message that is none, too large, cut, or malformed ends the connection with the reason."""
    error = ending(parties[0], data)
    assert isinstance(error, kind)
    assert text in str(error)


def test_a_connection_may_end_between_messages(parties: list[Party]) -> None:
    """Hanging up is how a caller ends; it is no error."""
    assert ending(parties[0], b"") is None
    assert ending(parties[0], b"\x01\x61") is None


@pytest.mark.parametrize("data", [b"", b"\x05", b"\x05\x61\x00"])
def test_a_silent_caller(parties: list[Party], data: bytes) -> None:
    """A caller that says nothing, or stops within a message, is not waited for."""
    assert "in time" in str(ending(parties[0], data, close=False))


def test_a_caller_without_end(parties: list[Party], monkeypatch: pytest.MonkeyPatch) -> None:
    """Only so many messages are answered on a connection."""
    monkeypatch.setattr(comparison, "MAX_ROUNDS", 3)
    assert ending(parties[0], b"\x01\x61" * 3) is not None
    assert "more than 3 messages" in str(ending(parties[0], b"\x01\x61" * 4))


def against(party: Party, answers: Callable[[bytes], bytes | None]) -> CulmError | None:
    """How a caller ends against a listener that answers so (None: hangs up)."""

    async def answering(streams: Any) -> None:
        reader, writer = streams
        while message := await read_message(reader):
            answer = answers(message)
            if answer is None:
                break
            writer.write(encode_varu64(len(answer)) + answer)
        writer.close()

    async def call() -> CulmError | None:
        near, far = await stream_pair()
        task = asyncio.create_task(answering(far))
        try:
            await compare(party.store, View.ENTRIES, near, idle_seconds=5)
        except CulmError as error:
            return error
        finally:
            near[1].close()
            await task
        return None

    return run(call)


def test_listeners_that_do_not_behave(parties: list[Party], monkeypatch: pytest.MonkeyPatch) -> None:
    """A listener that hangs up, talks nonsense, another version, or goes round in circles: an error that says so."""
    alice = parties[0]
    alice.store.add(build_log(100).items())
    assert "hung up at once" in str(against(alice, lambda _: None))
    assert isinstance(against(alice, lambda _: b"nonsense"), RemoteProtocolError)
    assert "another version" in str(against(alice, lambda _: b"\x60"))
    monkeypatch.setattr(comparison, "MAX_ROUNDS", 10)
    differs = b"\x61\x00\x00\x01" + bytes(16)  # one fingerprint of everything, never ours
    assert "not ended after 10 rounds" in str(against(alice, lambda _: differs))


def test_a_connection_that_ends_while_it_is_answered(parties: list[Party], monkeypatch: pytest.MonkeyPatch) -> None:
    """If a connection ends in the middle of an answer, its snapshot stays open for that, and is closed behind it."""
    fill(parties)
    _, bob, _ = parties
    entered, go_on, done = threading.Event(), threading.Event(), threading.Event()
    found: list[object] = []

    def slowly(session: Negentropy, _: bytes) -> Generator[None, None, bytes]:
        yield
        entered.set()
        go_on.wait(10)
        connection = session._storage._db  # type: ignore[attr-defined]
        found.extend((connection, connection.execute("SELECT count(*) FROM logs").fetchone()))
        done.set()
        return b"\x61"

    monkeypatch.setattr(Negentropy, "reconcile_by_steps", slowly)

    async def call() -> Listening:
        near, far = await stream_pair()
        listening = Listening(bob.worker, replace(CONFIG, surroundings=Surroundings()), far)
        task = asyncio.create_task(listening.run())
        near[1].write(b"\x01\x61")
        await asyncio.to_thread(entered.wait, 10)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        go_on.set()
        return listening

    listening = run_really(call)  # a real thread is in the middle of an answer
    assert done.wait(10)
    listening._own._executor.shutdown(wait=True)
    connection, counted = found
    assert counted == (2,)
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")  # type: ignore[attr-defined]


def test_a_peer_that_takes_for_ever(parties: list[Party], monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection ends when its time is over, however lively it is."""
    monkeypatch.setattr(comparison, "SESSION_SECONDS", 0.2)
    alice, bob, _ = parties

    async def call() -> CulmError | None:
        near, far = await stream_pair()
        listening = listen(bob, far)
        with suppress(ConnectionError, NetworkError):  # it hangs up at any moment
            while not listening.done():
                near[1].write(b"\x01\x61")
                await read_message(near[0])
        try:
            await listening
        except CulmError as error:
            return error
        return None

    assert "in time" in str(run(call))
    assert alice.store.verify().problems == []
