"""``culm wire check``: what it finds about our own node, and what it prints."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import threading
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from culm.bamboo import Identity
from culm.bushbaby import Dialect
from culm.cli.wire.check import Driver
from culm.conformance import SUITES, Check, Outcome, Refused, Subject, Suite
from culm.conformance.check import Differs, Talk
from culm.errors import NetworkError
from culm.node.network.transport import connect
from culm.node.network.urls import PeerUrl
from culm.node.service import NodeService
from culm.testing import LogBuilder, build_log
from tests.node.links import CONFIG, HERE, Party, run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from culm.conformance import Result
    from tests.cli.culm import Culm

NODE = replace(CONFIG, limits=replace(CONFIG.limits, penalty_seconds=0))
LONG, ENDED = build_log(7), LogBuilder(Identity(bytes([2]) * 32))
for text in (b"one", b"two"):
    ENDED.append(text)
ENDED.append(b"end", is_end=True)
PATIENT = 3600.0
"""Seconds of the simulated clock: each silence costs a timeout there, and none really."""


@asynccontextmanager
async def serving(folder: Path, scheme: str, **settings: Any) -> AsyncIterator[PeerUrl]:
    """A node that holds two logs and listens."""
    party = Party(folder, 1)
    party.store.add(LONG.items())
    party.store.add(ENDED.items())
    stop, places = asyncio.Event(), asyncio.Queue[PeerUrl]()
    node = NodeService(party.identity, replace(NODE, **settings), party.store)
    listen = [PeerUrl.parse(f"{scheme}://{HERE}:0", may_be_zero=True)]
    task = asyncio.create_task(node.run(listen, [], stop=stop, listening=places.put_nowait))
    yield await places.get()
    stop.set()
    await task
    party.close()


async def results_of(url: PeerUrl, log: LogBuilder, dialect: Dialect) -> dict[str, Result]:
    """The results of all checks against a node, by item."""
    driver = Driver(lambda: connect(url), timeout=3.0, patience=10.0)
    subject = Subject(os.urandom, log.entries[0].log, clump=b"Quagga", dialect=dialect)
    return {result.item: result async for result in driver.run(SUITES[url.scheme], subject)}


@pytest.mark.slow  # some fifty sessions, one for each check
@pytest.mark.parametrize(
    ("scheme", "settings", "skipped"),
    [
        ("intervals", {}, {"end of the log"}),
        ("intervals", {"stateless": True}, {"end of the log", "adjustment"}),
        ("proposals", {}, set()),
        ("bushbaby", {"dialect": Dialect.DEPLOYED}, set()),
        ("bushbaby", {"dialect": Dialect.DOCUMENT}, set()),
    ],
    ids=["intervals", "stateless", "proposals", "deployed", "document"],
)
def test_our_node_passes(tmp_path: Path, scheme: str, settings: dict[str, Any], skipped: set[str]) -> None:
    """Our node passes every check. The end of a log is looked at where a log has one.

    A stateless node conforms, too: it ends a response before an adjustment can come.
    """
    dialect = settings.get("dialect", Dialect.DEPLOYED)

    async def main() -> None:
        async with serving(tmp_path, scheme, **settings) as url:
            results = await results_of(url, LONG, dialect)
            assert [] == [result for result in results.values() if result.outcome is Outcome.FAILED]
            assert skipped == {item for item, result in results.items() if result.outcome is Outcome.SKIPPED}
            if scheme == "intervals":
                at_end = await results_of(url, ENDED, dialect)
                assert Outcome.PASSED is at_end["end of the log"].outcome

    run(main, PATIENT)


class Listener:
    """Does one thing with each connection: the first thing with the first, and the last with all others."""

    def __init__(self, *deeds: str) -> None:
        self.deeds = list(deeds)
        self.calls: list[asyncio.Task[None]] = []

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a caller."""
        deed = self.deeds[min(len(self.calls), len(self.deeds) - 1)]
        self.calls.append(asyncio.create_task(self._serve(deed, reader, writer)))

    async def _serve(self, deed: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if deed != "refuse":
            writer.write(b"hello")
        while deed == "drip" and not reader.at_eof():
            writer.write(b"x")
            await asyncio.sleep(0.1)
        if deed == "greet":
            await reader.read()
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def _begin(talk: Talk, _: bytes | None) -> None:
    if not await talk.more():
        raise Refused


async def _survey(_: Talk) -> tuple[()]:
    return ()


async def _stays(talk: Talk) -> None:
    while await talk.more():
        talk.line.be_patient()
    if talk.is_closed:
        raise Differs(talk.silence())


def outcomes(listener: Listener, *breaks: bool) -> list[tuple[Outcome, str]]:
    """What comes of checks that the connection stays, one for each flag: whether the check breaks the protocol."""
    checks = tuple(Check("stays", "", "", _stays, breaks=each) for each in breaks)

    async def main() -> list[tuple[Outcome, str]]:
        server = await asyncio.start_server(listener.accept, HERE, 0)
        url = PeerUrl("intervals", HERE, server.sockets[0].getsockname()[1])
        driver = Driver(lambda: connect(url), timeout=1.0, patience=5.0)
        suite = Suite(Talk, _begin, _survey, checks)
        found = []
        async for result in driver.run(suite, Subject(os.urandom)):
            found.append((result.outcome, result.reason))
            if "vanish" in listener.deeds:
                server.close()
        server.close()
        await asyncio.gather(*listener.calls)
        return found

    return run(main, PATIENT)


def test_each_check_has_a_connection_of_its_own() -> None:
    """What one check does to its connection leaves the others alone."""
    listener = Listener("greet", "hang up", "greet")

    assert [Outcome.PASSED, Outcome.FAILED, Outcome.PASSED] == [
        outcome for outcome, _ in outcomes(listener, *3 * [False])
    ]
    assert 3 == len(listener.calls)


def test_a_peer_that_refuses_us_is_called_again() -> None:
    """After 1 and 2 more seconds a peer that has closed at once is called again."""
    listener = Listener("refuse", "refuse", "greet")

    assert [(Outcome.PASSED, "")] == outcomes(listener, False)
    assert 3 == len(listener.calls)


def test_a_peer_that_refuses_us_for_long() -> None:
    """It fails, unless a check has broken the protocol before: then the checks that are left are skipped.

    They get one call each, so that the run comes to its end.
    """
    why = "the peer hangs up before it has greeted us, "
    for is_breaking, outcome in ((False, Outcome.FAILED), (True, Outcome.SKIPPED)):
        first, *others = outcomes(Listener("greet", "refuse"), is_breaking, False, False)
        assert (Outcome.PASSED, "") == first
        assert [(outcome, why + "for 5 s"), (outcome, why + "as before")] == others


def test_a_peer_that_never_lets_us_in() -> None:
    """Nothing is learned of it, so no check fails: the run ends, and says what the reason may be."""
    with pytest.raises(NetworkError, match=r"for 5 s: it may refuse us because of an earlier check$"):
        outcomes(Listener("refuse"), False, False)


def test_a_peer_that_vanishes_fails() -> None:
    """If the peer was there and cannot be reached any more, the checks that are left fail."""
    _, (outcome, reason) = outcomes(Listener("greet", "vanish"), True, True)

    assert Outcome.FAILED is outcome
    assert "cannot reach" in reason


def test_a_peer_that_drips_holds_nothing_up() -> None:
    """A check ends after twenty timeouts, however the peer goes on."""
    assert [(Outcome.FAILED, "no decision within 20 s")] == outcomes(Listener("drip"), False)


def test_a_peer_that_cannot_be_reached() -> None:
    """If the first call fails, no check is made."""

    async def main() -> None:
        driver = Driver(lambda: connect(PeerUrl("intervals", HERE, 1)), timeout=1.0, patience=5.0)
        async for result in driver.run(SUITES["intervals"], Subject(os.urandom)):
            raise AssertionError(result)

    with pytest.raises(NetworkError):
        run(main)


class Rude(threading.Thread):
    """A listener in this process that grants two requests to each caller, and hangs up when the caller says something.

    So nothing waits for a timeout, which a busy machine could miss.
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.socket = socket.create_server((HERE, 0))
        self.url = f"intervals://{HERE}:{self.socket.getsockname()[1]}"

    def run(self) -> None:
        """Take callers, one after the other, until the socket is closed."""
        while True:
            try:
                caller, _ = self.socket.accept()
            except OSError:
                return
            with caller, suppress(OSError):
                caller.sendall(bytes.fromhex("b0 02"))
                caller.recv(65536)


@pytest.fixture
def rude() -> Iterator[str]:
    """The address of a peer that hangs up behind its greeting."""
    listener = Rude()
    listener.start()
    yield listener.url
    listener.socket.shutdown(socket.SHUT_RDWR)
    listener.socket.close()
    listener.join()


def test_the_command_says_what_failed(culm: Culm, rude: str) -> None:
    """It prints each item, of a failure the claim, the bytes and what came, then how many there are; exit code 1."""
    result = culm("wire", "check", "intervals", rude)

    assert 1 == result.code
    assert "passed  grants credit (Global Connection State; D78)\n" in result.out
    assert (
        "failed  cancellation (Canceling Requests; D63)\n"
        "        claim     A cancelled response ends, with reason 10.\n"
        "        expected  an end of the response with reason 10\n"
        "        came      the peer ended the connection\n"
    ) in result.out
    assert re.search(
        r"^        sent      0200[0-9a-f]{66,}0001000500d000\n        received  b002$", result.out, re.MULTILINE
    )
    assert (
        "skipped single entry (Intervals; D36)\n        this needs a log that the peer holds; give --log" in result.out
    )
    assert re.search(r"^\d+ passed, \d+ failed, \d+ skipped$", result.out.splitlines()[-1])


def test_the_command_in_json(culm: Culm, rude: str) -> None:
    """Each check is an object with its item, source, claim, outcome, bytes, and what was due and came."""
    found = culm("wire", "check", "intervals", rude, "--only", "cancellation", "--json").json
    (check,) = found["checks"]

    assert "intervals" == found["protocol"]
    assert {"item", "source", "claim", "outcome", "sent", "came", "expected", "reason"} == set(check)
    assert ("failed", "b002", "the peer ended the connection") == (check["outcome"], check["came"], check["reason"])
    assert check["sent"].endswith("d000")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("intervals", "proposals://127.0.0.1:1"), 2, "no address of a peer that speaks intervals"),
        (("intervals", "intervals://127.0.0.1:1", "--timeout", "0"), 2, "--timeout and --patience are seconds"),
        (("intervals", "intervals://127.0.0.1:1", "--only", "nothing"), 2, "there are: grants credit, "),
        (("intervals", "intervals://127.0.0.1:1", "--timeout", "nan"), 2, "--timeout and --patience are seconds"),
        (("bushbaby", "bushbaby://127.0.0.1:1"), 2, "needs a clump"),
        (("bushbaby", "bushbaby://127.0.0.1:1", "--clump", "x", "--identity", "bob"), 2, "bob"),
        (("negentropy", "negentropy://127.0.0.1:1"), 2, "invalid choice"),
        (("intervals", "intervals://127.0.0.1:1"), 3, "cannot reach"),
    ],
)
def test_wrong_calls(culm: Culm, arguments: tuple[str, ...], code: int, message: str) -> None:
    """A call that cannot be made says why; a peer that is not there is exit code 3."""
    result = culm("wire", "check", *arguments)

    assert code == result.code
    assert message in result.err
