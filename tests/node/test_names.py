"""Names for keys: how they are shown, found, kept; two keys never have one name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from culm.errors import ConfigError, Place
from culm.node.names import Name, Names, NamesFile
from culm.wire.places import author_text

if TYPE_CHECKING:
    from pathlib import Path

ALICE, BOB = bytes([1]) * 32, bytes([2]) * 32
SHORT = author_text(ALICE)[:8]


def test_how_a_key_is_shown() -> None:
    """A key with a name is shown as that with the key's beginning; without one as the whole key, to be copied."""
    names = Names({ALICE: Name("alice")})
    assert names.author(ALICE) == f"alice ({SHORT})"
    assert names.log((ALICE, 7)) == names.what((ALICE, 7)) == f"alice/7 ({SHORT})"
    assert names.place(Place(ALICE, 7, 9)) == f"alice/7/9 ({SHORT})"
    assert names.what(BOB) == author_text(BOB)
    assert names.log((BOB, 7)) == f"{author_text(BOB)}/7"


def test_a_suggested_name_is_marked() -> None:
    """Wherever a name is shown that its owner has chosen, it says so."""
    names = Names({ALICE: Name("alice", suggested=True)})
    assert names.place(Place(ALICE, 7, 9)) == f"alice/7/9 ({SHORT}, suggested)"


def test_finding_a_key() -> None:
    """A name is found whatever its capitals."""
    names = Names({ALICE: Name("Alice")})
    assert (names.key("aLICE"), names.key("bob")) == (ALICE, None)


def test_one_name_one_key() -> None:
    """A name that another key has is refused, whatever its capitals; the own key can have it again, or another one."""
    names = Names().with_name(ALICE, Name("alice"))
    with pytest.raises(ConfigError, match=f"ALICE is the name of {author_text(ALICE)} already; rename it"):
        names.with_name(BOB, Name("ALICE"))
    assert names.with_name(ALICE, Name("Alice")).of == {ALICE: Name("Alice")}
    assert names.with_name(BOB, Name("bob")).without(ALICE).of == {BOB: Name("bob")}
    with pytest.raises(ConfigError, match="has no name"):
        names.without(BOB)


@pytest.mark.parametrize("text", ["", "1a", "-a", "a b", "a/1", "al\u0456ce", "a" * 33, "\x1b[2J", "a\n"])
def test_what_is_no_name(text: str) -> None:
    """A name has letters that cannot look like others, no place can be part of it, and it is shorter than a key."""
    with pytest.raises(ConfigError, match="cannot be a name: use up to 32 letters"):
        Names().with_name(ALICE, Name(text))


def test_there_and_back(tmp_path: Path) -> None:
    """Names are kept in a file that only its owner reads, and are as they were when it is read again."""
    file = NamesFile(tmp_path / "names.json")
    assert file.load().of == {}
    names = Names({BOB: Name("bob", suggested=True), ALICE: Name("alice")})
    file.save(names)
    assert file.load().of == names.of
    assert file.path.stat().st_mode & 0o777 == 0o600
    assert json.loads(file.path.read_text()) == {
        "01" * 32: {"name": "alice"},
        "02" * 32: {"name": "bob", "suggested": True},
    }


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "7", "[" * 100_000, "\x00", '{"x": {"name": "a"}}', '{"00": {"name": "a"}}',
        f'{{"{"01" * 32}": "a"}}', f'{{"{"01" * 32}": {{}}}}', f'{{"{"01" * 32}": {{"name": 7}}}}',
        f'{{"{"01" * 32}": {{"name": "a b"}}}}',
        f'{{"{"01" * 32}": {{"name": "a"}}, "{"02" * 32}": {{"name": "A"}}}}',
    ],
)  # fmt: skip
def test_a_damaged_file(tmp_path: Path, text: str) -> None:
    """A file that is no list of names is one error that names the file."""
    file = NamesFile(tmp_path / "names.json")
    file.path.write_text(text)
    with pytest.raises(ConfigError, match=r"names\.json (is damaged|cannot be read): "):
        file.load()


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    """A file that cannot be written is one error, and no staging file stays."""
    with pytest.raises(ConfigError, match="cannot write"):
        NamesFile(tmp_path / "nowhere" / "names.json").save(Names())
    assert list(tmp_path.iterdir()) == []
