"""``culm prove`` and ``culm check``: one file that shows an entry."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING

import pytest

from culm.bamboo import yamf_hash

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.culm import Culm


@pytest.fixture
def author(culm: Culm) -> str:
    """The author of a home with five entries in log 1."""
    for number in range(1, 6):
        assert culm("append", 1, "--text", f"payload {number}").code == 0
    return culm("identity", "show").out.strip()


def test_there_and_back(culm: Culm, author: str, tmp_path: Path) -> None:
    """A proof without payload is checked without a home, and what it proves and does not is said in words."""
    file = tmp_path / "proof"
    made = culm("prove", f"{author}/1/2", "-o", file)
    assert (made.code, made.out) == (0, "")
    assert f"proved {author}/1/2 in " in made.err
    checked = culm.at("nowhere")("check", file)
    assert checked.code == 0
    assert checked.out.splitlines() == [
        "proved",
        f"  {author} signed entry 2 of log 1.",
        "  5 signed entries link it into one history, from entry 1 to entry 5.",
        f"  Its payload has 9 bytes and the BLAKE2b-512 hash {yamf_hash(b'payload 2')[2:].hex()}.",
        "not proved",
        "  Who this author is: compare the key, or give --author KEY.",
        "  When the entry was written, and whether what it says is true.",
        "  That the log has no entry after 5.",
        *checked.out.splitlines()[8:],
    ]
    assert "That the author shows everybody this history: compare entry 5" in checked.out
    assert not (tmp_path / "nowhere").exists()


def test_one_entry(culm: Culm, tmp_path: Path) -> None:
    """The sentence on the history is in the singular where a single entry is all of it."""
    culm("init")
    place = culm("append", "2", "--text", "alone").out.strip()
    culm("prove", place, "-o", tmp_path / "alone")
    assert (
        "  1 signed entry links it into one history, from entry 1 to entry 1.\n"
        in culm("check", tmp_path / "alone").out
    )


def test_with_the_payload(culm: Culm, author: str, tmp_path: Path) -> None:
    """With ``--payload`` the file has the payload, and it is compared."""
    file = tmp_path / "proof"
    culm("prove", f"{author}/1/3", "--payload", "-o", file)
    whole = file.read_bytes()
    assert whole.endswith(b"payload 3")
    assert "  Its payload is what was checked: 9 bytes.\n" in culm("check", file, "--author", author).out
    for wrong in (whole[:-1], whole[:-1] + b"4", whole + b"x", whole[:-9]):
        file.write_bytes(wrong)
        done = culm("check", file)
        assert (done.code, done.out) == (1, "")
        assert "the payload in the file is not that of the entry" in done.err


def test_a_payload_beside_it(culm: Culm, author: str, tmp_path: Path) -> None:
    """``check --payload`` compares a file with the hash in the proof."""
    file, right, wrong = (tmp_path / name for name in ("proof", "right", "wrong"))
    culm("prove", f"{author}/1/3", "-o", file)
    right.write_bytes(b"payload 3")
    wrong.write_bytes(b"payload 4")
    assert culm("check", file, "--payload", right, "--json").json["payload_checked"] is True
    assert culm("check", file, "--payload", wrong).err == (
        f"culm: {wrong} is not the entry's payload: it has 9 bytes with another hash\n"
    )
    wrong.write_bytes(bytes(1_000_000))
    assert "it is longer than 9 bytes" in culm("check", file, "--payload", wrong).err


def test_as_json(culm: Culm, author: str, tmp_path: Path) -> None:
    """``--json`` has the same facts for programs, from both commands."""
    file = tmp_path / "proof"
    made = culm("prove", f"{author}/1/4", "--short", "-o", file, "--json").json
    checked = culm("check", file, "--json").json
    assert made.pop("bytes") == file.stat().st_size
    assert checked.pop("payload_checked") is False
    assert made == checked
    assert {key: made[key] for key in ("place", "seq", "top", "entries", "ended", "forked_at", "payload_included")} == {
        "place": f"{author}/1/4",
        "seq": 4,
        "top": 4,
        "entries": 2,
        "ended": False,
        "forked_at": None,
        "payload_included": False,
    }


def test_pipes(culm: Culm, author: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A proof can be read from stdin, in whatever pieces it comes."""
    file = tmp_path / "proof"
    culm("prove", f"{author}/1/3", "--payload", "-o", file)

    class Small(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            return super().read(min(size or 7, 7))

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(Small(file.read_bytes())))
    assert culm("check", "-").code == 0


def test_what_is_refused(culm: Culm, author: str, tmp_path: Path) -> None:
    """Each wrong call or file is one line: another author, another file, a fork, an entry that is not held."""
    file = tmp_path / "proof"
    culm("prove", f"{author}/1/3", "-o", file)
    assert culm("check", file, "--author", bytes(32).hex()).err == (
        "culm: the proof is of another author than the one asked for\n"
    )
    file.write_bytes(file.read_bytes() + b"more")
    assert "4 bytes or more follow the proof" in culm("check", file).err
    file.write_bytes(b"hello")
    assert culm("check", file).err == (
        "culm: this is not a proof of culm prove: it begins with other bytes."
        " Exports and bundles, also those of fork proofs, are checked by culm import\n"
    )
    assert culm("check", tmp_path / "none").code == 2
    assert culm("prove", f"{author}/1/6", "-o", tmp_path / "none").err == (
        "culm: the store has no verified entry 6 of this log\n"
    )
    assert not (tmp_path / "none").exists()


def test_an_endless_file(culm: Culm, author: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whatever a file is, only its beginning is kept: an endless payload is refused once it is too long."""
    file = tmp_path / "proof"
    culm("prove", f"{author}/1/3", "--payload", "-o", file)
    taken = 0

    class Endless(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            nonlocal taken
            assert size
            assert size > 0
            taken += size
            return super().read(size) or bytes(size)

    for beginning, most in ((file.read_bytes(), 400_000), (b"culm-proof\x01", 300_000), (b"", 300_000)):
        taken = 0
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(Endless(beginning)))
        assert culm("check", "-").code == 1
        assert taken < most


def test_a_forked_log(culm: Culm, author: str, tmp_path: Path) -> None:
    """A proof of an entry below a fork tells of the fork; at the fork there is none."""
    export, file = tmp_path / "export", tmp_path / "proof"
    culm("export", "-o", export, "--bundle")
    culm("append", 1, "--text", "one")
    other = culm.at("other")
    other("init", "--no-identity")
    other("import", export)
    key = tmp_path / "key"
    culm("identity", "export", "default", "-o", key)
    other("identity", "import", "default", key)
    other("append", 1, "--text", "two", "--continue-here")
    other("export", "-o", export, "--bundle")
    culm("import", export)
    assert culm("prove", f"{author}/1/4", "-o", file).code == 0
    assert "The author forked the log later, at entry 6" in culm("check", file).out
    assert "That the author shows everybody" not in culm("check", file).out
    assert culm("prove", f"{author}/1/6", "-o", file).code == 1
