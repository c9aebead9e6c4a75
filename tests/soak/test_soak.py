"""What a soak concludes from what it saw; ``make soak`` is one."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from culm.bamboo import Identity
from culm.errors import Place
from culm.store import PayloadState, SQLiteStore
from soak.__main__ import free_ports
from soak.figures import verdict
from soak.holdings import Held, differences, holdings
from soak.nodes import Usage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from soak.nodes import SoakNode

RUN = 1800
MIB = 2**20


def node(life: int, memory: Callable[[float, float], float], handles: Callable[[float], int]) -> SoakNode:
    """A node that was looked at once a second; its usage follows from the time, memory from its age, too."""
    usages = [
        Usage(at, at // life + 1, at % life, int(memory(at, at % life) * MIB), handles(at), 0.0) for at in range(RUN)
    ]
    return cast("SoakNode", SimpleNamespace(name="x", life=RUN // life, usages=usages))


@pytest.mark.parametrize("life", [RUN, 180])
def test_flat(life: int) -> None:
    """What grows with its age up to a limit, and no more, is flat."""
    found = verdict(node(life, lambda _, age: 50 + min(age, 60) / 4, lambda _: 20), 0, RUN)

    assert found.good
    assert 1.0 == pytest.approx(found.growth, abs=0.01)
    assert "within limits" in found.text()


@pytest.mark.parametrize("life", [RUN, 180])
def test_growing(life: int) -> None:
    """What grows over the run is noticed, over all restarts."""
    found = verdict(node(life, lambda at, _: 50 + at / 100, lambda _: 20), 0, RUN)

    assert not found.good
    assert found.growth is not None
    assert 1.15 < found.growth < 1.3
    assert "NOT within limits" in found.text()


@pytest.mark.parametrize("life", [RUN, 180])
@pytest.mark.parametrize("last", [14, 26])
def test_handles(life: int, last: int) -> None:
    """More open files at the end, or fewer, are noticed."""
    assert not verdict(node(life, lambda *_: 50, lambda at: 20 if at < RUN / 2 else last), 0, RUN).good


def test_ages_are_not_mixed() -> None:
    """That lives are shorter at the end, and memory therefore less, hides no growth."""
    usages = [Usage(at, 1, at, (50 + at // 20) * MIB, 20, 0.0) for at in range(600)]
    usages += [Usage(at, 2, at - 1500, (60 + (at - 1500) // 20) * MIB, 20, 0.0) for at in range(1500, 1560)]
    found = verdict(cast("SoakNode", SimpleNamespace(name="x", life=2, usages=usages)), 0, RUN)

    assert not found.good


def test_too_short() -> None:
    """Where there is nothing to compare nothing is claimed."""
    found = verdict(cast("SoakNode", SimpleNamespace(name="x", life=2, usages=[])), 0, RUN)

    assert found.growth is None
    assert "too short" in found.text()


def test_differences(tmp_path: Path) -> None:
    """Nodes hold the same if they hold the same entries, and each payload that they did not forget."""
    author = Identity(bytes(32))
    with SQLiteStore(tmp_path / "store.db") as store:
        for payload in (b"one", b"two", b"three"):
            store.append(author, 1, [payload])
        store.forget(Place(author.public, 1, 2))
    held = holdings(tmp_path / "store.db")
    place = Place(author.public, 1, 3)

    assert [3, 3, 5] == [item.size for item in held.values()]
    assert [] == differences({"a": held, "b": dict(held)})
    assert ["b lacks 1 entries"] == differences({"a": held, "b": {key: held[key] for key in held if key != place}})
    bare = {**held, place: held[place]._replace(payload=PayloadState.ABSENT)}
    assert ["b lacks 1 payloads"] == differences({"a": held, "b": bare})
    other = {**held, place: Held(b"", 5, PayloadState.COMPLETE)}
    assert 1 == len(differences({"a": held, "b": other}))


def test_free_ports() -> None:
    """Ports that were found free are different ones, and can be listened at."""
    ports = free_ports(4)

    assert 4 == len(set(ports))
    for port in ports:
        socket.create_server(("127.0.0.1", port)).close()
