"""``culm name``, and names in the place of keys in other commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.culm import Culm

OTHER = "0" * 43


@pytest.fixture
def alice(culm: Culm) -> str:
    """The key of a home with a log, which it calls alice."""
    culm("append", 1, "--text", "hello")
    key = culm("identity", "show").out.strip()
    assert culm("name", key, "alice").out == f"{key} is alice\n"
    return key


def test_giving_and_taking(culm: Culm, alice: str) -> None:
    """A name is given, changed, listed and taken away, by the key or by the name that it has."""
    changed = culm("name", "alice", "Mum")
    assert (changed.out, changed.err) == (f"{alice} is Mum\n", "it was alice before\n")
    assert culm("name", OTHER, "bob", "--json").json == {"key": OTHER, "name": "bob", "before": None}
    assert culm("name").out.splitlines() == ["name  key", f"bob   {OTHER}", f"Mum   {alice}"]
    assert culm("name", "mum", "--remove").out == f"{alice} has no name any more\n"
    assert [row["name"] for row in culm("name", "--json").json] == ["bob"]


def test_no_names(culm: Culm) -> None:
    """Without names the list is empty, and says how to give one."""
    nothing = culm("name")
    assert (nothing.out, nothing.err) == ("", "no key has a name; give one with: culm name KEY NAME\n")
    assert culm("name", "--json").json == []


def test_wrong_calls(culm: Culm, alice: str) -> None:
    """A name that is taken or cannot be one, and calls with too little, are one line, and change nothing."""
    for arguments, why in (
        ((OTHER, "ALICE"), f"ALICE is the name of {alice} already; rename it (culm name ALICE OTHER),"),
        ((OTHER, "a/b"), "'a/b' cannot be a name: use up to 32 letters"),
        ((OTHER, OTHER), f"'{OTHER}' cannot be a name"),
        ((OTHER,), "give a NAME for the key, or --remove"),
        ((OTHER, "bob", "--remove"), "give a NAME for the key, or --remove"),
        (("--remove",), "--remove needs a KEY or the name that it has"),
        ((OTHER, "--remove"), f"{OTHER} has no name"),
        (("alcie", "x"), "did you mean alice?"),
        (("zoe", "x"), "culm name lists the names that you have given"),
    ):
        done = culm("name", *arguments)
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
        assert why in done.err
    assert [row["name"] for row in culm("name", "--json").json] == ["alice"]
    nowhere = culm.at("nowhere")
    assert (
        f"is not a Culm home yet; make one with: culm --home {nowhere.home} init" in nowhere("name", OTHER, "bob").err
    )
    assert not culm.at("nowhere").home.exists()


def test_commands_take_and_show_names(culm: Culm, alice: str) -> None:
    """Wherever a key can be given, its name can; wherever a key is shown to a person, its name is."""
    log = f"alice/1 ({alice[:8]})"
    assert culm("logs").out.splitlines()[1].startswith(log)
    assert culm("tail", "alice/1").out == "     1  hello\n"
    assert culm("show", "alice/1").out.splitlines()[1].startswith("  1  verified")
    assert culm("show", "alice/1/1").out.startswith(f"place         alice/1/1 ({alice[:8]})\n")
    assert culm("show", "alice/1/1", "--payload").out == "hello"
    assert culm("verify", "alice/1").code == 0
    assert culm("show", "alice/2").err == f"culm: the store has no entries of alice/2 ({alice[:8]})\n"
    assert culm("tail", "alice/2").err == f"culm: the store has no entries of alice/2 ({alice[:8]})\n"
    assert culm("verify", "alice/2").err == f"culm: the store has no entries of alice/2 ({alice[:8]})\n"
    assert culm("show", "alice/1/2").err == f"culm: the store does not have alice/1/2 ({alice[:8]})\n"
    assert culm("unshare", "alice/1", "--clump", "x").out == f"{log} is not shared in x\n"
    assert f"unshared       {log}\n" in culm("policy", "--clump", "x").out
    assert culm("share", "alice/1", "--everywhere").out == f"{log} is shared in every clump\n"
    assert culm("follow", "alice/1", "--clump", "x").out == f"following {log}: 1..\n"
    assert culm("following", "--clump", "x").out.splitlines()[1].startswith(log)
    assert f"you do not follow alice ({alice[:8]}); you follow of this author: {log}" in (
        culm("unfollow", "alice", "--clump", "x").err
    )
    assert culm("unfollow", "alice/1", "--clump", "x").code == 0
    culm("block", "author", "alice", "--clump", "x")
    assert f"block_authors  alice ({alice[:8]})" in culm("policy", "--clump", "x").out.replace(
        "block authors", "block_authors"
    )
    culm("block", "author", "alice", "--clump", "x", "--remove")
    assert culm("forget", "alice/1/1").out.startswith(f"deleted the payload of alice/1/1 ({alice[:8]}) (")


def test_programs_get_keys(culm: Culm, alice: str) -> None:
    """JSON has keys, because a name can change: a program that reads it goes on working."""
    assert culm("logs", "--json").json[0]["author"] == alice
    assert culm("show", "alice/1/1", "--json").json["place"] == f"{alice}/1/1"
    culm("follow", "alice", "--clump", "x")
    assert culm("following", "--clump", "x", "--json").json["following"][0]["what"] == alice
    assert culm("append", 1, "--text", "x").out == f"{alice}/1/2\n"


def test_files_and_proofs(culm: Culm, alice: str) -> None:
    """Exports and proofs are asked for by name, and made of keys."""
    folder = culm.home.parent
    assert culm("export", "alice/1", "-o", folder / "export").code == 0
    assert f"the store has no entries of alice/2 ({alice[:8]})" in culm("export", "alice/2", "-o", folder / "x").err
    assert f"proved alice/1/1 ({alice[:8]}) in " in culm("prove", "alice/1/1", "-o", folder / "proof").err
    assert f"  {alice} signed entry 1 of log 1." in culm("check", folder / "proof", "--author", "alice").out
    bob = culm.at("bob")
    bob("init")
    assert "'alice' is neither an author" in bob("check", folder / "proof", "--author", "alice").err
    differs = culm("reconcile", culm.home, bob.home).out
    assert f"alice/1 ({alice[:8]})" in differs


def test_options_of_a_node(culm: Culm, alice: str) -> None:
    """``--interest`` and ``--promote`` take names, and so do addresses; a name alone is a peer of the configuration."""
    settings = culm("config", "--promote", "alice/1", "--peer", "culm://alice@127.0.0.1:1", "--json").json
    assert settings["settings"]["promote"]["value"] == [f"{alice}/1"]
    assert settings["peers"][0]["url"] == f"culm://{alice}@127.0.0.1:1"
    assert culm("config", "--interest", "alice/1 3..").code == 0
    assert "'9' is not AUTHOR/LOG" not in culm("config", "--interest", "alice/1 x").err
    assert culm("config", "--peer", "alice").err == (
        "culm: the configuration has no address of alice; give one, as culm://alice@HOST:PORT\n"
    )
    (culm.home / "culm.toml").write_text(f'[[peers]]\nurl = "culm://{alice}@127.0.0.1:1"\n')
    assert culm("config", "--peer", "alice", "--json").json["peers"][0]["url"] == f"culm://{alice}@127.0.0.1:1"
    assert culm("sync", "alice").code == 3
    assert culm("fetch", "alice", "alice/1/1").code == 3
    assert "'bob' is not an address" in culm("sync", "bob").err
    assert "'bob' is neither an author" in culm("sync", "culm://bob@127.0.0.1:1").err


@pytest.mark.usefixtures("alice")
def test_a_damaged_file(culm: Culm) -> None:
    """``culm doctor`` finds a damaged file of names, and says what to do; other commands name the file in one line."""
    assert "ok       names: names.json for 1 key\n" in culm("doctor").out
    (culm.home / "names.json").write_text("{")
    found = culm("doctor")
    assert found.code == 1
    assert f"problem  names: {culm.home / 'names.json'} cannot be read: " in found.out
    assert "-> restore names.json from a backup, or delete it and repeat your culm name commands" in found.out
    assert culm("logs").err.count("\n") == 1


@pytest.mark.usefixtures("alice")
def test_a_backup_has_the_names(culm: Culm) -> None:
    """A restored home has the same names."""
    target = culm.home.parent / "backup.tar"
    assert culm("backup", target).code == 0
    restored = culm.at("restored")
    assert restored("restore", target).code == 0
    assert restored("name", "--json").json == culm("name", "--json").json
    assert (restored.home / "names.json").stat().st_mode & 0o777 == 0o600


def test_a_peer_of_the_configuration(culm: Culm, alice: str) -> None:
    """A peer is called by the name that the configuration gives it, whatever its protocol, before names of keys."""
    for url in ("intervals://127.0.0.1:1", "ws://127.0.0.1:1", f"culm://{alice}@127.0.0.1:1"):
        (culm.home / "culm.toml").write_text(f'[[peers]]\nurl = "{url}"\nname = "alice"\n')
        done = culm("sync", "alice", f"{alice}/1") if "culm" not in url else culm("sync", "alice")
        assert (done.code, f"cannot reach {url}" in done.err) == (3, True)
    (culm.home / "culm.toml").write_text('[[peers]]\nurl = "bushbaby://127.0.0.1:1"\nname = "alice"\n')
    assert "bushbaby cannot do this" in culm("fetch", "alice", f"{alice}/1/1").err
