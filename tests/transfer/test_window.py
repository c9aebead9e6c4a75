"""How many bytes a peer may have under way."""

from __future__ import annotations

import pytest

from culm.transfer import Window

MEBIBYTE = 1 << 20
KIBIBYTE = 1 << 10


def grown(window: Window, mebibytes: int, owner: int = 1) -> Window:
    """The window when so much of a payload has come, a mebibyte at a time."""
    for _ in range(mebibytes):
        turn(window, owner, MEBIBYTE, goes_on=True)
    return window


def turn(window: Window, owner: int, size: int, *, goes_on: bool = False, in_payload: bool = False) -> None:
    """So many bytes come in one turn."""
    window.begin_turn(in_payload=in_payload)
    window.took(owner, size, goes_on=goes_on)
    window.end_turn(owner)


def test_it_grows_with_payloads() -> None:
    """It begins with 1 MiB, and grows by an eighth of what comes, up to the most."""
    assert Window(4 * MEBIBYTE).full == MEBIBYTE
    assert grown(Window(4 * MEBIBYTE), 8).full == 2 * MEBIBYTE
    assert grown(Window(4 * MEBIBYTE), 24).full == 4 * MEBIBYTE
    assert grown(Window(4 * MEBIBYTE), 100).full == 4 * MEBIBYTE
    assert grown(Window(32 * KIBIBYTE), 100).full == 32 * KIBIBYTE


def test_news_make_it_short() -> None:
    """Short turns in the middle of another payload do, for as long as they come; it grows anew behind them."""
    window = grown(Window(4 * MEBIBYTE), 24)
    turn(window, 2, 300)
    assert window.full == 256 * KIBIBYTE
    assert grown(window, 2).full == 256 * KIBIBYTE
    assert grown(window, 14).full == 2 * MEBIBYTE


@pytest.mark.parametrize(("size", "is_news"), [(0, True), (32_767, True), (32_768, False)])
def test_a_long_turn_is_no_news(size: int, is_news: bool) -> None:
    """Less than 32 KiB is short."""
    window = grown(Window(4 * MEBIBYTE), 24)
    turn(window, 2, size)
    assert (window.full < MEBIBYTE) == is_news


def test_what_is_no_news() -> None:
    """The rest of a payload is none, nor what comes behind the end of the other one."""
    window = grown(Window(4 * MEBIBYTE), 24)
    turn(window, 2, 300, in_payload=True)
    turn(window, 1, 300)
    turn(window, 2, 300)
    grown(window, 1, owner=3).over(3)
    turn(window, 2, 300)
    assert window.full == 4 * MEBIBYTE
    grown(window, 1, owner=3).over(4)
    turn(window, 2, 300)
    assert window.full == 256 * KIBIBYTE


def test_grants_are_not_small() -> None:
    """Credit is granted when a fifth of the window is owed; to a peer that still has credit for more there is none."""
    window = Window(1000)
    assert [window.grant(left) for left in (0, 1, 800, 801, 1000, 5000)] == [1000, 999, 200, 0, 0, 0]
