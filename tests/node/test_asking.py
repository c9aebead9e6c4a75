"""How peers are asked, the same for a one-time sync, for a contact that is kept, and in the configuration."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from culm.errors import ConfigError
from culm.intervals import Forks
from culm.node.asking import check_how, how_of, narrowed
from culm.node.config import PeerSettings
from culm.node.interests.missing import EVERYTHING
from culm.node.interests.policy import Policy
from culm.node.intervals.followed import FollowOptions
from culm.node.network.urls import PeerUrl
from culm.node.proposals.options import ProposalOptions
from culm.node.service import NodeService
from culm.node.settings.reading import load
from culm.ranges import Range, RangeSet
from culm.testing import build_log
from tests.node.links import CONFIG, HERE, run

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from culm.node.asking import How, Wanted
    from tests.node.links import Party

LOG, OTHER = build_log(21), build_log(5, seed=2)
KEY, ELSE = LOG.entries[0].log, OTHER.entries[0].log
INTERVALS, PROPOSALS, CULM = (PeerUrl(scheme, HERE, 1) for scheme in ("intervals", "proposals", "culm"))
SOME = RangeSet([Range(1, 5)])
HASH = "0b" * 64


@pytest.mark.parametrize(
    ("url", "given", "how"),
    [
        (INTERVALS, {}, FollowOptions()),
        (INTERVALS, {"newest": 3, "newest_first": True, "greedy": True}, FollowOptions(newest=3, newest_first=True)),
        (INTERVALS, {"unverified": True, "min_payload": 5}, FollowOptions(verified=False, least_size=5)),
        (
            INTERVALS,
            {"fork": "local", "anchor": f"7:{HASH}"},
            FollowOptions(forks=Forks.LOCAL, anchor=(7, bytes.fromhex("0040" + HASH))),
        ),
        (PROPOSALS, {"max_payload": 9, "newest": 3}, ProposalOptions(greatest_size=9, greedy=True)),
        (PROPOSALS, {"profile": "small", "greedy": False}, ProposalOptions(small=True)),
        (CULM, {"newest": 3}, None),
    ],
)
def test_options_by_name(url: PeerUrl, given: Mapping[str, Any], how: How | None) -> None:
    """Each protocol takes its own options; proposals have those for all peers where a peer has none."""
    assert how == how_of(url, given, ProposalOptions(greedy=True))


@pytest.mark.parametrize("anchor", ["", "7", f"0:{HASH}", f"x:{HASH}", "7:0b", f"7:{HASH}0b"])
def test_what_is_no_anchor(anchor: str) -> None:
    """An anchor is a number above 0 and 64 bytes in hex, and needs the fork handling that looks at it."""
    with pytest.raises(ConfigError, match="SEQ:HASH"):
        how_of(INTERVALS, {"fork": "local", "anchor": anchor}, ProposalOptions())
    with pytest.raises(ConfigError, match="fork to be local"):
        how_of(INTERVALS, {"anchor": f"7:{HASH}"}, ProposalOptions())


def test_options_of_another_protocol() -> None:
    """They are refused, because they would silently do nothing."""
    check_how(FollowOptions(), INTERVALS)
    check_how(None, CULM)
    for how, url in ((FollowOptions(), PROPOSALS), (ProposalOptions(), INTERVALS), (ProposalOptions(), CULM)):
        with pytest.raises(ConfigError, match="does not work with"):
            check_how(how, url)


def test_narrowing() -> None:
    """A policy for named logs wants nothing else, and no log of a blocked author."""
    some = RangeSet([Range(2, 5)])
    policy = Policy(interests={KEY: some}, block_authors=frozenset({OTHER.entries[0].author}))
    assert narrowed(policy, {KEY: None, ELSE: EVERYTHING}).interests == {KEY: some}
    hoarding = narrowed(Policy(hoard=True), {KEY: None})
    assert (hoarding.interests, hoarding.hoard) == ({KEY: EVERYTHING}, False)


@pytest.mark.parametrize(
    ("lines", "line", "words"),
    [
        ('url = "proposals://x:1"\nnewest = 3', 3, r"peers\[1\].newest: works with intervals:// peers only"),
        (
            'url = "culm://%s@x:1"\nmin_payload = 3' % ("a" * 43),
            3,
            "works with intervals:// and proposals:// peers only",
        ),
        ('url = "intervals://x:1"\nnewest = 0', 3, "1 or more"),
        ('url = "intervals://x:1"\nanchor = "3"', 3, "expected SEQ:HASH"),
        (f'url = "intervals://x:1"\nanchor = "3:{HASH}"', 1, "fork to be local"),
        ('url = "intervals://x:1"\nfork = "some"', 3, "one of"),
    ],
)
def test_wrong_options_of_a_peer(tmp_path: Path, lines: str, line: int, words: str) -> None:
    """The configuration names the line, the key and what it takes."""
    path = tmp_path / "culm.toml"
    path.write_text(f"[[peers]]\n{lines}\n")
    with pytest.raises(ConfigError, match=f"line {line}: .*{words}"):
        load(path)


_SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("scheme", "options", "wanted", "how", "expected", "news"),
    [
        ("intervals", {"newest": 2}, None, None, ([1, 19, 20], [1, 4, 5]), [21]),
        pytest.param(
            "intervals", {"newest": 5}, None, FollowOptions(newest=2), ([1, 19, 20], [1, 4, 5]), [21], marks=_SLOW
        ),
        ("proposals", {"max_payload": 2}, None, None, ([1], [1]), []),
        pytest.param("proposals", {}, None, ProposalOptions(notify_only=True), ([1], [1]), [], marks=_SLOW),
        ("intervals", {}, {KEY: SOME}, None, ([1, 2, 3, 4, 5], [1]), []),
        pytest.param("proposals", {}, {KEY: SOME}, None, ([1, 2, 3, 4, 5], [1]), [], marks=_SLOW),
        ("culm", {}, {KEY: SOME}, None, ([1, 2, 3, 4, 5], [1]), []),
        pytest.param("culm", {}, {KEY: None}, None, ([*range(1, 21)], [1]), [21], marks=_SLOW),
        ("bushbaby", {}, {KEY: None}, None, ([*range(1, 21)], [1]), [21]),
    ],
)
def test_a_contact_that_is_kept(
    parties: list[Party],
    scheme: str,
    options: Mapping[str, Any],
    wanted: Wanted | None,
    how: How | None,
    expected: tuple[list[int], list[int]],
    news: list[int],
) -> None:
    """A peer is asked as its configuration or the call says, and for what the call names, whatever the node follows.

    Bob holds the first entry of two of Alice's logs. He gets payloads as expected, and then news.
    """
    alice, bob, _ = parties
    alice.store.add([*LOG.items(LOG.entries[:20]), *OTHER.items()])
    bob.store.add([*LOG.items(LOG.entries[:1]), *OTHER.items(OTHER.entries[:1])])

    async def main() -> tuple[list[int], ...]:
        stop, places = asyncio.Event(), asyncio.Queue[PeerUrl]()
        there = NodeService(alice.identity, CONFIG, alice.store)
        running = [
            asyncio.create_task(there.run([PeerUrl(scheme, HERE, 0)], [], stop=stop, listening=places.put_nowait))
        ]
        url = await places.get()
        peers = (PeerSettings(url, "alice", options=options),)
        here = NodeService(bob.identity, replace(CONFIG, peers=peers), bob.store)
        running.append(asyncio.create_task(here.run([], [], stop=stop)))
        here.contact(url, wanted, how)
        await asyncio.sleep(10)
        before = bob.holds()
        await here.change_policy(replace(here.config.policy, hoard=True))
        alice.store.add(LOG.items(LOG.entries[20:]))
        await asyncio.sleep(10)
        stop.set()
        await asyncio.gather(*running)
        after = bob.holds()
        assert before[ELSE] == after[ELSE]
        return before[KEY], before[ELSE], after[KEY][len(before[KEY]) :]

    assert (*expected, news) == run(main, 600)
