"""Where the page may be served, and what a request may ask for."""

from __future__ import annotations

import random

import pytest

from culm.bamboo import MAX_U64
from culm.bamboo.base62 import encode_base62
from culm.errors import ConfigError
from culm.node.status import queries
from culm.node.status.settings import StatusSettings
from culm.store.survey import Order
from tests.quick import rounds

TOKEN = "0123456789abcdefXYZ"


@pytest.mark.parametrize("text", ["127.0.0.1:8484", "localhost:0", "[::1]:8484", "127.9.9.9:1"])
def test_this_machine_needs_no_token(text: str) -> None:
    """Addresses that only this machine can reach are served without a token."""
    settings = StatusSettings.parse(text)
    assert settings.is_local
    assert settings.token is None


@pytest.mark.parametrize("text", ["0.0.0.0:8484", "[::]:8484", "192.0.2.1:8484", "example.org:8484"])
def test_others_need_a_token(text: str) -> None:
    """Anything that others could reach is refused without a token, and taken with one."""
    with pytest.raises(ConfigError, match="set a token"):
        StatusSettings.parse(text)
    assert not StatusSettings.parse(text, TOKEN).is_local


@pytest.mark.parametrize("token", ["", "short", "x" * 257, "with a space in it", "ümlautümlautümlaut", "a" * 15 + "\n"])
def test_tokens_are_long_and_plain(token: str) -> None:
    """A token that could be guessed, or that no header can carry, is refused."""
    with pytest.raises(ConfigError, match="letters, digits"):
        StatusSettings.parse("127.0.0.1:8484", token)


@pytest.mark.parametrize(
    "text",
    ["", "8484", ":8484", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:99999", "a@b:1", "h:1/x", "[::1:8"],
)
def test_what_is_no_address(text: str) -> None:
    """Anything but HOST:PORT is a wrong call."""
    with pytest.raises(ConfigError, match="HOST:PORT"):
        StatusSettings.parse(text)


def test_the_token_does_not_show() -> None:
    """Settings that are printed, in an error say, do not print the token."""
    assert TOKEN not in repr(StatusSettings.parse("127.0.0.1:8484", TOKEN))


@pytest.mark.parametrize(
    ("host", "ours"),
    [
        ("127.0.0.1:8484", True),
        ("localhost", True),
        ("LOCALHOST:9", True),
        ("[::1]:8484", True),
        ("evil.example:8484", False),
        ("127.0.0.1.evil.example", False),
        ("localhost.evil.example", False),
        ("", False),
        ("192.0.2.1", False),
        ("[", False),
    ],
)
def test_hosts_that_are_this_machine(host: str, *, ours: bool) -> None:
    """Only names that nobody else can point at this machine count as its own."""
    assert ours == StatusSettings.parse("127.0.0.1:8484").is_ours(host)


@pytest.mark.parametrize("seed", rounds(30))
def test_a_search_finds_authors_by_their_beginning(seed: int) -> None:
    """The span of a beginning, of any length, in base62 or hex, holds an author if and only if its text begins so."""
    choose = random.Random(seed)
    authors = [choose.randbytes(32) for _ in range(50)] + [bytes(32), b"\xff" * 32]
    text = encode_base62(choose.choice(authors)).decode()
    start = text[: choose.choice((1, 2, 5, 20, 43))]
    span, log_id = queries.authors(start)
    assert span is not None
    assert log_id is None
    for author in authors:
        assert encode_base62(author).decode().startswith(start) == (span[0] <= author <= span[1])
    whole = authors[0].hex()
    assert (authors[0], authors[0]) == queries.authors(whole)[0]
    half, _ = queries.authors(whole[:50])
    assert half is not None
    assert half[0] <= authors[0] <= half[1]


def test_a_search_for_a_log_id() -> None:
    """``/5`` is every author's log 5; a beginning may stand before it; nothing is everything."""
    assert (None, 5) == queries.authors("/5")
    span, log_id = queries.authors(" abc/18446744073709551615 ")
    assert span is not None
    assert MAX_U64 == log_id
    assert (None, None) == queries.authors("")


@pytest.mark.parametrize("text", ["a b", "<b>", "ä", "a/b", "/-1", "/18446744073709551616", "x" * 200, "a/5/6", "%00"])
def test_searches_that_mean_nothing(text: str) -> None:
    """They are refused, whatever they are."""
    with pytest.raises(ConfigError):
        queries.authors(text)


def test_numbers_and_words() -> None:
    """Numbers have limits, and words are of a list."""
    assert 7 == queries.number({}, "limit", 7)
    assert 10 == queries.number({"limit": "99"}, "limit", 7, most=10)
    for text in ("-1", "x", "", "1.5", "0"):
        with pytest.raises(ConfigError):
            queries.number({"limit": text}, "limit", 7, least=1)
    assert Order.RECENT == queries.choice({"order": "recent"}, "order", Order.NAME)
    with pytest.raises(ConfigError, match="expected one of name, recent"):
        queries.choice({"order": "x; DROP TABLE logs"}, "order", Order.NAME)
