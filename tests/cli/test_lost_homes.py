"""Lost homes: where the newest entries of one's own logs may be missing, nothing is signed that could fork them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from culm import Node
from culm.errors import ConfigError, UnconfirmedLog

if TYPE_CHECKING:
    from tests.cli.culm import Culm, Result


def lose_store(culm: Culm) -> None:
    """Only the keys are left of a home."""
    for path in culm.home.glob("store.db*"):
        path.unlink()


def is_refused(result: Result) -> bool:
    """Whether an append was refused because of the mark, in one line that says what to do."""
    told = result.err.count("\n") == 1 and "sync with a peer" in result.err and "--continue-here" in result.err
    return (result.code, result.out) == (1, "") and told


def test_init_refuses_a_lost_home(culm: Culm) -> None:
    """Where identities are and no store, init makes nothing, and says what happened and what to do."""
    culm("append", 1, "--text", "x")
    lose_store(culm)
    before = sorted(culm.home.rglob("*"))
    for arguments in (["init"], ["init", "--no-identity"], ["append", "1", "--text", "y"], ["logs"]):
        result = culm(*arguments)
        assert (result.code, result.out, result.err.count("\n")) == (2, "", 1), result
        assert "identities but no store" in result.err
        assert "restore a backup" in result.err
        assert "culm init --keep-identities" in result.err
    assert sorted(culm.home.rglob("*")) == before


def test_the_doctor_of_a_lost_home(culm: Culm) -> None:
    """The doctor's advice for a lost home is that of init, and no plain init."""
    lose_store(culm)
    result = culm("doctor", "--json")
    assert result.code == 1
    (finding,) = result.json["findings"]
    assert ("problem", "home") == (finding["level"], finding["check"])
    assert "identities but no store" in finding["what"]
    assert "restore a backup" in finding["todo"]
    assert "culm init --keep-identities" in finding["todo"]


def test_a_program_in_a_lost_home(culm: Culm) -> None:
    """A program's node does not make an empty store beside the keys, either."""
    lose_store(culm)

    async def run() -> None:
        async with Node.open(culm.home):
            pass

    with pytest.raises(ConfigError, match="identities but no store"):
        asyncio.run(run())
    assert not list(culm.home.glob("store.db*"))


def test_a_home_made_anew(culm: Culm) -> None:
    """With --keep-identities the home works again, and its identities sign nothing unasked; a new one does."""
    author = culm("identity", "show").out.strip()
    culm("append", 1, "--text", "x")
    lose_store(culm)
    made = culm("init", "--keep-identities", "--json")
    assert (made.code, made.json["created"], made.json["author"]) == (0, True, author)
    assert is_refused(culm("append", 1, "--text", "y"))
    assert is_refused(culm("append", 2, "--text", "y"))
    culm("identity", "new", "fresh")
    assert culm("append", 1, "--identity", "fresh", "--text", "y").code == 0
    assert culm("append", 1, "--text", "y", "--continue-here").out == f"{author}/1/1\n"
    assert culm("append", 1, "--text", "y").out == f"{author}/1/2\n"
    assert sorted(path.name for path in culm.home.iterdir()) == ["identities", "store.db"]


def test_keys_that_cannot_be_read_are_not_kept(culm: Culm) -> None:
    """An identity that cannot be marked because its file is open to others keeps the home from being made anew."""
    lose_store(culm)
    (culm.home / "identities" / "default").chmod(0o644)
    result = culm("init", "--keep-identities")
    assert result.code == 2
    assert "chmod 600" in result.err
    assert not list(culm.home.glob("store.db*"))


def test_keep_identities_where_nothing_was_lost(culm: Culm) -> None:
    """In a home that has its store, or where there is none yet, the option changes nothing: nobody is marked."""
    for home in (culm, culm.at("bob")):
        assert home("init", "--keep-identities").code == 0
        assert home("append", 1, "--text", "x").code == 0


def test_a_restored_home(culm: Culm) -> None:
    """After restore the identities sign nothing unasked, in logs with entries and without; the original goes on."""
    culm("append", 1, "--text", "x")
    kept = culm.home.parent / "kept.tar"
    assert culm("backup", kept).code == 0
    again = culm.at("again")
    restored = again("restore", kept)
    assert "append refuses" in restored.err
    assert "--continue-here" in restored.err
    assert is_refused(again("append", 1, "--text", "y"))
    assert is_refused(again("append", 2, "--text", "y"))
    assert culm("append", 1, "--text", "y").code == 0
    author = again("identity", "show").out.strip()
    assert again("append", 1, "--text", "y", "--continue-here").out == f"{author}/1/2\n"
    assert is_refused(again("append", 2, "--text", "y"))


def test_a_backup_of_a_restored_home(culm: Culm) -> None:
    """Restoring marks anew: what was confirmed in a home is not confirmed in a copy of it."""
    kept, later = culm.home.parent / "kept.tar", culm.home.parent / "later.tar"
    culm("backup", kept)
    again = culm.at("again")
    again("restore", kept)
    again("append", 1, "--text", "x", "--continue-here")
    again("backup", later)
    third = culm.at("third")
    third("restore", later)
    assert is_refused(third("append", 1, "--text", "y"))


def test_an_imported_identity(culm: Culm) -> None:
    """An identity from elsewhere signs nothing unasked, and a log file does not change that."""
    culm("append", 1, "--text", "x")
    culm("identity", "export", "default", "-o", culm.home / "me")
    culm("export", "-o", culm.home / "logs")
    for order in ("me first", "logs first"):
        new = culm.at(order)
        new("init", "--no-identity")
        steps = [("identity", "import", "me", culm.home / "me"), ("import", culm.home / "logs")]
        for step in steps if order == "me first" else steps[::-1]:
            result = new(*step)
            assert result.code == 0
        assert is_refused(new("append", 1, "--text", "y"))
        new("import", culm.home / "logs")
        assert is_refused(new("append", 1, "--text", "y"))
        assert new("append", 1, "--text", "y", "--continue-here").code == 0


def test_importing_what_is_here(culm: Culm) -> None:
    """A second copy of an identity of this home changes nothing: it is not from elsewhere."""
    culm("identity", "export", "default", "-o", culm.home / "me")
    assert culm("identity", "import", "copy", culm.home / "me").code == 0
    assert culm("append", 1, "--text", "x").code == 0


def test_the_doctor_knows_the_mark(culm: Culm) -> None:
    """A marked identity is worth a note that says what to do; it is no problem, and others are not mentioned."""
    kept = culm.home.parent / "kept.tar"
    culm("append", 1, "--text", "x")
    culm("backup", kept)
    again = culm.at("again")
    again("restore", kept)
    again("identity", "new", "fresh")
    result = again("doctor", "--json")
    notes = [finding for finding in result.json["findings"] if finding["level"] == "note"]
    (marked,) = [finding for finding in notes if finding["check"] == "identities"]
    assert result.code == 0
    assert "default" in marked["what"]
    assert "fresh" not in marked["what"]
    assert "sync with a peer" in marked["todo"]
    assert "--continue-here" in marked["todo"]
    assert not [finding for finding in culm("doctor", "--json").json["findings"] if "sync with" in finding["todo"]]


def test_a_program_in_a_restored_home(culm: Culm) -> None:
    """A program's node refuses as the command does, and takes the same word for it."""
    kept = culm.home.parent / "kept.tar"
    culm("append", 1, "--text", "x")
    culm("backup", kept)
    again = culm.at("again")
    again("restore", kept)

    async def run() -> None:
        async with Node.open(again.home) as node:
            assert not await node.is_confirmed(1)
            with pytest.raises(UnconfirmedLog):
                await node.append(1, "y")
            entry = await node.append(1, "y", continue_here=True)
            assert await node.is_confirmed(1)
            assert not await node.is_confirmed(2)
            assert entry.seq == 2
            assert (await node.append(1, "z")).seq == 3

    asyncio.run(run())
