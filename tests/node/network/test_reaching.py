"""Calling several addresses of one node at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from culm.errors import NetworkError
from culm.node.network.reaching import connect_any
from culm.node.network.urls import PeerUrl

A, B, C = (PeerUrl("culm", host, 1, bytes(32)) for host in "abc")


class _Writer:
    """A connection that is its own transport."""

    def __init__(self) -> None:
        self.transport = self
        self.closed = False

    def abort(self) -> None:
        self.closed = True


def reach(monkeypatch: pytest.MonkeyPatch, answers: dict[PeerUrl, float | None]) -> Any:
    """What calling gives; ``answers``: seconds until each address answers (None: it never does), below 0 fails then."""
    made: dict[PeerUrl, _Writer] = {}
    over: set[PeerUrl] = set()

    async def connect(url: PeerUrl) -> tuple[object, _Writer]:
        try:
            seconds = answers[url]
            await (asyncio.Event().wait() if seconds is None else asyncio.sleep(abs(seconds)))
            assert seconds is not None
            if seconds < 0:
                raise NetworkError(f"{url.host} is down")
            made[url] = _Writer()
            return None, made[url]
        finally:
            over.add(url)

    monkeypatch.setattr("culm.node.network.reaching.connect", connect)

    async def run() -> Any:
        url, streams = await connect_any(list(answers))
        assert over == set(answers)
        return url, [other for other, writer in made.items() if writer.closed], streams[1]

    return asyncio.run(run())


def test_the_first_that_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first connection is used; an address that fails before it, and one that never answers, do not matter."""
    url, closed, writer = reach(monkeypatch, {A: None, B: 0.01, C: -0.001})
    assert (url, closed, writer.closed) == (B, [], False)


def test_two_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two connections that are made at the same time one is used, and the other is closed."""
    url, closed, writer = reach(monkeypatch, {A: 0, B: 0})
    assert {url, *closed} == {A, B}
    assert not writer.closed


def test_none_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """If all fail, the reasons of all are given, in the order of the addresses."""
    with pytest.raises(NetworkError, match=r"^a is down; b is down$"):
        reach(monkeypatch, {A: -0.002, B: -0.001})
