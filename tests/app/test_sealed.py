"""Sealed payloads through ``culm.Node``: ``append(..., readers=...)``, and ``payload``, which opens."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from culm import SealedPayload
from culm.errors import ConfigError
from culm.sealing import Group, is_sealed
from culm.wire.places import log_text
from tests.app.nodes import opened, two
from tests.node.links import run_really
from tests.sealing.keys import AGE_KEY, NAMES, SECRET_AGE_KEY

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from culm import Entry, Node

SMALL, LARGE = b"for the reader", b"0123456789" * 30_000


async def pieces(node: Node, entry: Entry, offset: int = 0, *, raw: bool = False) -> bytes:
    """A payload as ``payload_pieces`` gives it."""
    return b"".join([piece async for piece in node.payload_pieces(entry, offset, raw=raw)])


@pytest.mark.slow
def test_a_reader_a_carrier_and_the_author(tmp_path: Path) -> None:
    """The reader and the author get the content, a carrier an error; all hold the same bytes, which are sealed."""

    def content() -> Iterator[bytes]:
        yield LARGE[:1000]
        yield LARGE[1000:]

    async def main() -> None:
        async with two(tmp_path) as (one, other, address), opened(tmp_path, 3) as third:
            entries = [await one.append(1, payload, readers=[other.name]) for payload in (SMALL, LARGE, content())]
            await other.sync(address)
            await third.sync(address)
            for entry, expected in zip(entries, (SMALL, LARGE, LARGE), strict=True):
                for reader in (one, other):
                    assert expected == await reader.payload(entry)
                    assert expected == await pieces(reader, entry)
                    assert expected[7:] == await pieces(reader, entry, 7)
                with pytest.raises(SealedPayload, match="it is sealed for 2 readers, and your key is not among them"):
                    await third.payload(entry)
                with pytest.raises(SealedPayload, match="your key is not among them"):
                    await pieces(third, entry)
                sealed = await third.payload(entry, raw=True)
                assert is_sealed(sealed)
                assert entry.size == len(sealed)
                assert sealed[9:] == await pieces(one, entry, 9, raw=True)

    run_really(main)


@pytest.mark.slow
def test_many_at_once(tmp_path: Path) -> None:
    """Many payloads are sealed one by one, for the same readers; a wrong reader publishes none of them."""
    payloads: list[bytes | str] = [b"", "t\u00e9xt", LARGE, *(b"%d" % number for number in range(1200))]

    async def main() -> None:
        async with two(tmp_path) as (one, other, address):
            with pytest.raises(ConfigError, match="is no reader"):
                await one.append_many(1, payloads, readers=["nobody"])
            with pytest.raises(TypeError, match=r"readers are given as a list: write readers=\['"):
                await one.append(1, SMALL, readers=other.name)
            entries = await one.append_many(1, iter(payloads), readers=[other.author])
            await one.append_many(1, ["open"])
            assert [entry.seq for entry in entries] == list(range(1, len(payloads) + 1))
            await other.sync(address)
            found = [await other.payload(entry) for entry in entries]
            assert found == [each.encode() if isinstance(each, str) else each for each in payloads]
            sealed = [await one.payload(entry, raw=True) for entry in entries]
            assert all(map(is_sealed, sealed))
            assert len(set(sealed)) == len(sealed)
            last = await other.entry((one.author, 1), len(payloads) + 1)
            assert last is not None
            assert await other.payload(last, raw=True) == b"open"

    run_really(main)


def test_groups_and_age_keys(tmp_path: Path) -> None:
    """A group is named like a log; keys besides the node's own are given to ``payload``."""

    async def main() -> None:
        async with two(tmp_path) as (one, other, address):
            group = Group((one.author, 5), 0, (other.name, AGE_KEY))
            await one.append(5, group.encode())
            entry = await one.append(1, "t\u00e9xt", readers=[log_text(group.log)])
            await other.sync(address)
            assert "t\u00e9xt".encode() == await other.payload(entry)
            assert (entry, "t\u00e9xt".encode()) == await other.entry_with_payload((one.author, 1), 1)
            assert (entry, await other.payload(entry, raw=True)) == await other.entry_with_payload(
                (one.author, 1), 1, raw=True
            )
            assert "t\u00e9xt".encode() == await one.payload(entry, keys=[SECRET_AGE_KEY])
            with pytest.raises(ConfigError, match="not a secret age key"):
                await one.payload(entry, keys=["AGE"])

    run_really(main)


def test_nothing_is_appended_for_a_wrong_reader(tmp_path: Path) -> None:
    """A name that means no reader is refused before anything is published."""

    async def main() -> None:
        async with opened(tmp_path) as node:
            for name in ("alice", f"{node.name}/5", b"short"):
                with pytest.raises(Exception, match=r"is no reader|has no list of the group"):
                    await node.append(1, b"x", readers=[name])
            assert await node.entry(1, 1) is None

    run_really(main)


def test_without_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without ``pyrage`` a node serves sealed payloads, and gives them out as they are."""

    async def main() -> None:
        async with two(tmp_path) as (one, other, address):
            entry = await one.append(1, SMALL, readers=[*NAMES.values()])
            with monkeypatch.context() as patch:
                patch.setitem(sys.modules, "pyrage", None)
                await other.sync(address)
                assert is_sealed(await other.payload(entry, raw=True))
                with pytest.raises(ConfigError, match="sealed payloads need pyrage"):
                    await other.payload(entry)
            assert SMALL == await other.payload(entry)

    run_really(main)
