"""``culm group``: lists of readers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.sealing.keys import AGE_KEY, BOB, CAROL, NAMES

if TYPE_CHECKING:
    from tests.cli.culm import Culm


@pytest.fixture
def author(culm: Culm) -> str:
    """The author of the home."""
    return culm("identity", "show").out.strip()


def test_the_life_of_a_group(culm: Culm, author: str) -> None:
    """A group is made, grows, shrinks and is replaced; each change is an entry, and the newest list is shown."""
    group, bob, carol = f"{author}/5", NAMES[BOB], NAMES[CAROL]
    made = culm("group", "add", 5, bob, AGE_KEY)
    assert (0, f"{group}/1: 2 readers; seal for them with: --for {group}\n") == (made.code, made.out)
    assert [bob, AGE_KEY, carol] == culm("group", "add", 5, carol, "--json").json["readers"]
    assert [AGE_KEY] == culm("group", "remove", 5, bob, carol, "--json").json["readers"]
    assert [bob] == culm("group", "set", 5, bob, "--json").json["readers"]
    assert f"{bob}\n" == culm("group", "show", group).out
    assert {"group": group, "author": author, "seq": 4, "readers": [bob]} == culm("group", "show", group, "--json").json
    assert [] == culm("group", "set", 5, "--json").json["readers"]
    assert b"culm-group 1\n" == f"{culm('show', f'{group}/5', '--payload').out}".encode()


def test_names_of_readers(culm: Culm, author: str) -> None:
    """Where keys have names, people see these: of the group's owner, and of each reader that is an identity."""
    culm("name", author, "alice")
    culm("name", NAMES[BOB], "bob")
    made = culm("group", "set", 5, "bob", AGE_KEY, NAMES[CAROL])
    assert made.out == f"alice/5/1 ({author[:8]}): 3 readers; seal for them with: --for alice/5\n"
    assert culm("group", "show", "alice/5").out.splitlines() == [f"bob ({NAMES[BOB][:8]})", AGE_KEY, NAMES[CAROL]]
    assert culm("append", 1, "--text", "x", "--for", "alice/5").code == 0
    assert "names: names.json for 2 keys\n" in culm("doctor").out


def test_changes_that_change_nothing(culm: Culm, author: str) -> None:
    """A reader is added once, and removed only from a list that has them; a refused change publishes no entry."""
    culm("group", "set", 5, NAMES[BOB])
    assert f"culm: {NAMES[BOB]} is on the list already\n" == culm("group", "add", 5, NAMES[BOB]).err
    assert f"culm: {NAMES[CAROL]} is not on the list\n" == culm("group", "remove", 5, NAMES[CAROL]).err
    assert 1 == culm("group", "show", f"{author}/5", "--json").json["seq"]


def test_what_cannot_be_a_reader(culm: Culm, author: str) -> None:
    """A name that is no key, a key with a typing error and a group inside of a group are refused."""
    for name, why in (
        ("alice", "'alice' is neither an author (43 base62 characters, or 64 hex digits) nor a name here"),
        (AGE_KEY[:-1] + "q", "nothing can be sealed for age1"),
        (f"{author}/5", "is no reader"),
        ("0" * 43, "it is not the public key of any identity"),
    ):
        done = culm("group", "add", 5, name)
        assert (2, True) == (done.code, why in done.err), done
    assert "no list of the group" in culm("group", "show", f"{author}/5").err


def test_a_log_with_other_entries(culm: Culm, author: str) -> None:
    """A mistyped log does not become a group: where the newest entry is no list, none is published."""
    culm("append", 1, "--text", "hello")
    done = culm("group", "add", 1, NAMES[BOB])
    assert (2, f"culm: {author}/1/1 is no list of a group: expected lines of text, first 'culm-group 1'\n") == (
        done.code,
        done.err,
    )
    assert "hello" == culm("show", f"{author}/1/1", "--payload").out
    assert 1 == culm("logs", "--json").json[0]["newest"]
