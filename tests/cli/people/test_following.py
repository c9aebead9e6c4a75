"""``culm follow``, ``unfollow``, ``following``, and a node that takes up what they change."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from culm import SQLiteStore
from culm.testing import build_log
from culm.wire.places import author_text, log_text
from tests.cli.test_network import serving
from tests.node.peers import key

if TYPE_CHECKING:
    from tests.cli.culm import Culm

LOG = build_log(20, seed=9, log_id=4)
OTHER = build_log(6, seed=8)
NAME = log_text(key(LOG))
AUTHOR = author_text(LOG.identity.public)
CLUMP = ("--clump", "x")


def test_following_and_not(culm: Culm) -> None:
    """What is followed is listed until it is not followed any more; the last word on a log counts, unless added to."""
    assert culm("following", *CLUMP, "--json").json == {"everything": True, "following": []}
    first = culm("follow", NAME, *CLUMP, "--from", 3, "--max-payload", "1kB", "--without-payload", "5,7")
    assert (first.code, first.out) == (0, f"following {NAME}: 3.. sizes ..1000 without 5,7\n")
    assert "asks only for what you follow" in first.err
    again = culm("follow", NAME, *CLUMP, "--sparse", "--from", 2, "--to", 40, "--min-payload", 5)
    assert "this replaces: 3.. sizes" in again.err
    assert culm("follow", NAME, *CLUMP, "--add", "--from", 100, "--json").json["ranges"] == [
        "2..40 sparse sizes 5..", "100..",
    ]  # fmt: skip
    assert culm("follow", AUTHOR, *CLUMP).err == ""
    found = culm("following", *CLUMP, "--json").json
    assert [row["what"] for row in found["following"]] == sorted([NAME, AUTHOR])
    assert AUTHOR in culm("following", *CLUMP).out
    assert culm("following", "--clump", "y", "--json").json["everything"]
    assert culm("unfollow", AUTHOR, *CLUMP).out == "in clump x you still follow 1\n"
    wrong = culm("unfollow", AUTHOR, *CLUMP)
    assert (wrong.code, NAME in wrong.err) == (2, True)
    assert "asks only for your own logs" in culm("unfollow", NAME, *CLUMP).out
    assert culm("following", *CLUMP, "--json").json == {"everything": False, "following": []}
    assert "everything that the policy allows" in culm("unfollow", "--all", *CLUMP).out
    assert culm("following", *CLUMP, "--json").json["everything"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("follow", "x"), "author"),
        (("follow", NAME, "--from", "0"), "sequence number"),
        (("follow", NAME, "--from", "7", "--to", "6"), "ends before it begins"),
        (("follow", NAME, "--min-payload", "7", "--max-payload", "6"), "no payload"),
        (("follow", NAME, "--without-payload", "1,x"), "sequence number"),
        (("follow", NAME, "--from", "5", "--without-payload", "3"), "entry 3 is not in the range"),
        (("follow", NAME, "--without-payload", ",".join(map(str, range(1, 700)))), "too many"),
        (("unfollow",), "--all"),
        (("unfollow", NAME, "--all"), "--all"),
        (("unfollow", NAME), "do not follow"),
    ],
)
def test_wrong_calls(culm: Culm, arguments: tuple[str, ...], reason: str) -> None:
    """What makes no sense is one line, exit code 2, and changes nothing."""
    result = culm(*arguments, *CLUMP)
    assert (result.code, result.err.count("\n")) == (2, 1), result
    assert reason in result.err
    assert not (culm.home / "policy.json").exists()


def test_a_clump_is_needed(culm: Culm) -> None:
    """Without a clump nothing is chosen; the configuration's is taken; an empty one can be named."""
    assert culm("follow", NAME).code == 2
    assert "clump" in culm("following").err
    assert culm("follow", NAME, "--clump", "").code == 0
    (culm.home / "culm.toml").write_text('clump = "y"\n')
    assert culm("following", "--json").json["everything"]
    assert "in clump y" in culm("follow", NAME).err


def test_a_blocked_author_is_told_of(culm: Culm) -> None:
    """Following an author who is blocked warns that nothing will arrive."""
    culm("block", "author", AUTHOR, *CLUMP)
    assert "the policy does not allow" in culm("follow", NAME, *CLUMP).err


def test_a_sync_asks_for_what_is_followed(culm: Culm) -> None:
    """Only what is followed, and one's own logs, are fetched; ``--interest`` wins over it."""
    bob = culm.at("bob")
    bob("init")
    with SQLiteStore(culm.home / "store.db") as store:
        store.add([*LOG.items(), *OTHER.items()])
    bob("follow", NAME, *CLUMP, "--to", 3)
    bob("append", 1, "--text", "mine")
    culm("unfollow", "--all", *CLUMP)
    with serving(culm.home) as (url, _):
        assert bob("sync", url, *CLUMP).code == 0
        logs = {log["log_id"]: log["entries"] for log in bob("logs", "--json").json}
        assert logs == {4: 3 + 1, 1: 1}  # and entry 4, which certifies entry 3
        bob("sync", url, *CLUMP, "--interest", f"{log_text(key(OTHER))} 1..4")
        assert {log["log_id"]: log["entries"] for log in bob("logs", "--json").json}[0] == 4


@pytest.mark.parametrize("scheme", ["bushbaby", "intervals", "proposals"])
def test_a_running_node_takes_up_what_is_followed(culm: Culm, scheme: str) -> None:
    """``culm follow`` beside a running node brings it without a restart; a damaged file changes nothing."""
    bob = culm.at("bob")
    bob("init")
    with SQLiteStore(culm.home / "store.db") as store:
        store.add([*LOG.items(), *OTHER.items()])
    bob("follow", NAME, *CLUMP, "--to", 4)
    with (
        serving(culm.home, "--listen", f"{scheme}://127.0.0.1:0") as (first, process),
        serving(bob.home, "--peer", first if scheme == "bushbaby" else _listening(process), "--interval", 0.1),
    ):

        def wait(log_id: int, entries: int) -> None:
            while {log["log_id"]: log["entries"] for log in bob("logs", "--json").json}.get(log_id) != entries:
                pass

        wait(4, 4)
        (bob.home / "policy.json").with_suffix(".kept").write_bytes((bob.home / "policy.json").read_bytes())
        (bob.home / "policy.json").write_text("{")
        (bob.home / "policy.kept").replace(bob.home / "policy.json")
        bob("follow", log_text(key(OTHER)), *CLUMP)
        wait(0, 6)
        assert {log["log_id"]: log["entries"] for log in bob("logs", "--json").json}[4] == 4


def _listening(process: object) -> str:
    """The second address that a node listens at."""
    line: str = process.stdout.readline()  # type: ignore[attr-defined]
    return line.split()[1]
