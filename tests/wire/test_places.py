"""Places as people type them."""

from __future__ import annotations

import pytest

from culm.bamboo import MAX_U64, read_u64
from culm.errors import ConfigError, Place
from culm.wire.places import author_text, is_name, parse_log, parse_log_or_place, parse_number, parse_place, place_text

AUTHOR = bytes(range(32))


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("007", 7), (str(MAX_U64), MAX_U64), ("0" * 5000 + "5", 5), (str(MAX_U64 + 1), None),
     ("9" * 5000, None), ("", None), ("-1", None), ("+1", None), ("1 ", None), ("1_0", None), ("\u0664", None)],
)  # fmt: skip
def test_numbers_are_digits(text: str, number: int | None) -> None:
    """A number is ASCII digits up to 2^64 - 1, however many of them there are; everything else is none."""
    assert read_u64(text) == number


def test_a_number_has_a_least() -> None:
    """What is below the least that makes sense, or no number at all, is refused in words that say what was expected."""
    assert parse_number("1", "sequence number", 1) == 1
    for text in ("0", "9" * 5000, "x"):
        with pytest.raises(ConfigError, match=r"not a sequence number \(1 to 2\^64 - 1\)"):
            parse_number(text, "sequence number", 1)


def test_a_log_or_a_place() -> None:
    """Both are told apart by what stands behind the log; authors may be typed as hex."""
    place = Place(AUTHOR, 7, 9)
    assert parse_log_or_place(place_text(place)) == ((AUTHOR, 7), 9)
    assert parse_log_or_place(f"{AUTHOR.hex()}/7") == ((AUTHOR, 7), None)
    for text in (author_text(AUTHOR), f"{author_text(AUTHOR)}/7/0", f"{author_text(AUTHOR)}/{'9' * 5000}"):
        with pytest.raises(ConfigError):
            parse_log_or_place(text)


def test_a_log_needs_its_number() -> None:
    """An author alone is no log, and neither is one with nothing behind the slash."""
    assert parse_log(f"{AUTHOR.hex()}/0") == (AUTHOR, 0)
    for text in (AUTHOR.hex(), author_text(AUTHOR)):
        with pytest.raises(ConfigError, match="is not AUTHOR/LOG"):
            parse_log(text)
    with pytest.raises(ConfigError, match="is not a log id"):
        parse_log(f"{AUTHOR.hex()}/")


def test_a_place_has_three_parts() -> None:
    """What lacks a part is refused as a whole, and not only its beginning."""
    assert parse_place(f"{AUTHOR.hex()}/7/1") == Place(AUTHOR, 7, 1)
    for text in ("", "9", f"{AUTHOR.hex()}", f"{AUTHOR.hex()}/7", "/7"):
        with pytest.raises(ConfigError, match="is not AUTHOR/LOG/SEQ"):
            parse_place(text)


@pytest.mark.parametrize("text", ["a", "a" * 32, "A.b_c-9"])
def test_names(text: str) -> None:
    """A name has up to 32 characters and begins with a letter."""
    assert is_name(text)
    for wrong in ("", "a" * 33, f"9{text[1:]}", f".{text[1:]}", f"{text[:-1]} ", f"{text[:-1]}\u00e9"):
        assert not is_name(wrong)
