"""Where the page gets names and the policy."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import quote

from culm.bamboo import Identity
from culm.node.interests.policy import Policy
from culm.node.names import Name, Names, NamesFile
from culm.node.service import NodeService
from culm.node.status import NamesWatch, Sources, StatusSettings, status_server
from culm.testing.builders import build_log
from culm.wire.places import log_text
from tests.node.links import CONFIG, run_really
from tests.node.status.serving import Served, served

if TYPE_CHECKING:
    from pathlib import Path

    from culm.store import SQLiteStore

GAPPY = build_log(1, seed=2).identity.public, 2
ADDRESS = "/api/log?log=" + quote(log_text(GAPPY), safe="")


def test_names_follow_their_file(tmp_path: Path) -> None:
    """A name that is given while the page is served shows; a damaged file leaves the names as they were."""
    file = NamesFile(tmp_path / "names.json")
    watch = NamesWatch(file)
    assert {} == watch().of
    file.save(Names({GAPPY[0]: Name("alice")}))
    assert {GAPPY[0]: Name("alice")} == watch().of
    file.path.write_text("{")
    assert {GAPPY[0]: Name("alice")} == watch().of


def test_the_page_knows_the_policy_of_its_node(store: SQLiteStore) -> None:
    """A gap is missing while the node asks for everything, and not asked for once it follows something else."""

    async def main() -> None:
        node = NodeService(Identity(bytes(32)), CONFIG, store)
        stop = asyncio.Event()
        running = asyncio.create_task(node.run([], [], stop=stop))
        names = Names({GAPPY[0]: Name("alice")})
        async with (
            status_server(node, StatusSettings("127.0.0.1", 0), Sources(names=lambda: names)) as server,
            served(store.path) as plain,
        ):
            page = Served(server, node.roster, plain.client)
            _, _, before = await page.get(ADDRESS)
            await node.change_policy(Policy(interests={}))
            _, _, after = await page.get(ADDRESS)
            _, _, listed = await page.get("/api/following")
        stop.set()
        await running
        assert ("everything", "33", "0") == (
            before["rule"]["by"],
            *(before["lacking"][x] for x in ("missing", "unasked")),
        )
        assert ("unfollowed", "0", "33") == (
            after["rule"]["by"],
            *(after["lacking"][x] for x in ("missing", "unasked")),
        )
        assert {"text": "alice", "suggested": False} == before["name"]
        assert (False, []) == (listed["everything"], listed["followed"])

    run_really(main)
