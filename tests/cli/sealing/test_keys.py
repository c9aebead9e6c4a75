"""``culm append --for`` and ``culm show --payload``: who opens what, and what is said to the others."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING

import pytest

from culm.bamboo.keyfile import dump_identity, write_private
from culm.cli import main
from tests.sealing.keys import AGE_KEY, ALICE, BOB, SECRET_AGE_KEY, age_recipient, pyrage

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.culm import Culm


@pytest.fixture
def bob(culm: Culm) -> Culm:
    """Another home."""
    other = culm.at("bob")
    other("init")
    return other


def key(of: Culm) -> str:
    """The author of a home."""
    return of("identity", "show").out.strip()


def carry(source: Culm, target: Culm) -> None:
    """Bring all logs of a home into another."""
    file = source.home / "logs.bamboo"
    assert source("export", "-o", file).code == 0
    assert target("import", file).code == 0


def test_a_reader_and_a_carrier(culm: Culm, bob: Culm) -> None:
    """The reader and the author open a payload; a third home carries it, is told what it may not, and passes it on."""
    carol = culm.at("carol")
    carol("init")
    culm("append", 1, "--text", "for bob", "--for", key(bob))
    place = f"{key(culm)}/1/1"
    carry(culm, carol)
    carry(carol, bob)
    assert ["for bob", "for bob"] == [home("show", place, "--payload").out for home in (culm, bob)]
    done = carol("show", place, "--payload")
    assert (1, "") == (done.code, done.out)
    assert (
        "culm: the payload is sealed and stays closed: it is sealed for 2 readers, and your key is not among them\n"
        == done.err
    )
    assert "0 invalid; 1 payload;" in carol("verify").out
    assert [True, True] == [home("show", place, "--json").json["sealed"] for home in (culm, carol)]
    culm("append", 1, "--text", "for all")
    assert culm("show", f"{key(culm)}/1/2").out.splitlines()[-1].split() == ["sealed", "False"]


def test_a_group_whose_list_changes(culm: Culm, bob: Culm) -> None:
    """A payload is for the readers of the list that was newest when it was sealed, and no new list changes that."""
    group = f"{key(culm)}/9"
    culm("group", "set", 9, key(bob))
    culm("append", 1, "--text", "with bob", "--for", group)
    culm("group", "set", 9, key(culm))
    culm("append", 1, "--text", "without bob", "--for", group)
    carry(culm, bob)
    assert "with bob" == bob("show", f"{key(culm)}/1/1", "--payload").out
    assert (
        "it is sealed for 1 reader, and your key is not among them" in bob("show", f"{key(culm)}/1/2", "--payload").err
    )


def test_without_the_author(culm: Culm, bob: Culm) -> None:
    """``--not-for-me`` leaves the author out, who cannot open the payload then."""
    culm("append", 1, "--text", "x", "--for", key(bob), "--not-for-me")
    assert 1 == culm("show", f"{key(culm)}/1/1", "--payload").code
    done = culm("append", 1, "--text", "x", "--not-for-me")
    assert (2, "culm: --not-for-me works with --for only\n") == (done.code, done.err)


def test_age_keys(culm: Culm, bob: Culm, tmp_path: Path) -> None:
    """An age key opens from its file, as ``age-keygen`` writes it; without it a reader is told of the option."""
    culm("append", 1, "--text", "for a key", "--for", AGE_KEY)
    carry(culm, bob)
    place, file = f"{key(culm)}/1/1", tmp_path / "key.txt"
    write_private(file, f"# created: today\n# public key: {AGE_KEY}\n\n{SECRET_AGE_KEY}\n")
    assert "if you have one, give its file with --key FILE" in bob("show", place, "--payload").err
    assert "for a key" == bob("show", place, "--payload", "--key", file).out
    file.chmod(0o644)
    assert "other users can read" in bob("show", place, "--payload", "--key", file).err


def test_as_it_is(culm: Culm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``--raw`` gives the bytes that the author signed, which any age made; without it they are opened."""
    file = tmp_path / "sealed"
    file.write_bytes(pyrage.encrypt(b"made by age", [age_recipient(ALICE)]))
    write_private(culm.home / "identities" / "default2", dump_identity(ALICE))
    culm("append", 1, file)
    place = f"{key(culm)}/1/1"
    assert "made by age" == culm("show", place, "--payload").out
    written = io.BytesIO()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", io.TextIOWrapper(written))
        assert 0 == main(["--home", str(culm.home), "show", place, "--payload", "--raw"])
        assert file.read_bytes() == written.getvalue()
    assert "--raw and --key work with --payload only" in culm("show", place, "--raw").err


@pytest.mark.usefixtures("cheap_passphrases")
def test_a_passphrase_is_asked_for_when_it_helps(culm: Culm, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sealed identity is only opened for payloads that are for it."""
    write_private(culm.home / "identities" / "locked", dump_identity(BOB, "open sesame"))
    author = key(culm)
    culm("append", 1, "--text", "mine", "--for", author)
    culm("append", 1, "--text", "bob's", "--for", BOB.public.hex(), "--not-for-me")
    assert "mine" == culm("show", f"{author}/1/1", "--payload").out
    assert "this identity needs a passphrase" in culm("show", f"{author}/1/2", "--payload").err
    monkeypatch.setenv("CULM_PASSPHRASE", "open sesame")
    assert "bob's" == culm("show", f"{author}/1/2", "--payload").out


def test_lines(culm: Culm, tmp_path: Path) -> None:
    """With ``--lines`` each line is sealed for itself."""
    (tmp_path / "lines").write_text("one\ntwo\n")
    assert 0 == culm("append", 1, tmp_path / "lines", "--lines", "--for", AGE_KEY).code
    author = key(culm)
    assert ["one", "two"] == [culm("show", f"{author}/1/{seq}", "--payload").out for seq in (1, 2)]
    assert all("sealed)" in line for line in culm("tail", f"{author}/1").out.splitlines())
    assert culm("tail", f"{author}/1", "--json").json["text"] is None


def test_payloads_that_are_damaged(culm: Culm, tmp_path: Path) -> None:
    """Bytes that only look sealed end in one line and exit code 1, and nothing is written."""
    author = key(culm)
    for number, payload in enumerate((b"age-encryption.org/v1\n", b"age-encryption.org/v1\n-> scrypt AAAA 40\n"), 1):
        (tmp_path / "file").write_bytes(payload + b"x\n--- " + b"A" * 43 + b"\n")
        culm("append", 1, tmp_path / "file")
        done = culm("show", f"{author}/1/{number}", "--payload")
        assert (1, "", 1) == (done.code, done.out, done.err.count("\n"))
        assert done.err.startswith("culm: the payload is sealed and stays closed: ")


def test_without_the_extra(culm: Culm, bob: Culm, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without ``pyrage`` a home takes, verifies and passes on sealed payloads; opening says what it needs."""
    culm("append", 1, "--text", "secret", "--for", key(bob))
    carol = culm.at("carol")
    monkeypatch.setitem(sys.modules, "pyrage", None)
    carol("init")
    carry(culm, carol)
    carry(carol, bob)
    assert 0 == carol("verify").code
    done = bob("show", f"{key(culm)}/1/1", "--payload")
    assert (2, "culm: sealed payloads need pyrage: pip install 'culm[sealed]'\n") == (done.code, done.err)
    assert (2, "culm: sealed payloads need pyrage: pip install 'culm[sealed]'\n") == bob(
        "append", 1, "--text", "x", "--for", key(culm)
    )[::2]
    monkeypatch.undo()
    assert "secret" == bob("show", f"{key(culm)}/1/1", "--payload").out
