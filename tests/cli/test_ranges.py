"""Looking into ranges from the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.culm import Culm


def test_show(culm: Culm) -> None:
    """Text and hex of a range, what it denotes, and a picture."""
    shown = culm("ranges", "show", "80080a").out.splitlines()
    assert shown[:4] == [
        "8..10  (80080a)",
        "in a log of 13 entries",
        "  entries: 8..10",
        "  metadata to verify them: 1, 4, 11, 12, 13",
    ]
    assert shown[4].split() == ["1", "c..c...###", "ccc"]
    assert culm("ranges", "show", "8..10").out.splitlines() == shown
    assert "...p.pp" in culm("ranges", "show", "4..7 payloads without 5").out
    assert culm("ranges", "show", "ff").out.startswith("nothing  (ff)")


def test_show_as_json(culm: Culm) -> None:
    """The same for programs, in a log of a given length; runs of neighbours are pairs."""
    result = culm("ranges", "show", "1.. sparse", "--newest", "8", "--json").json
    assert result == {
        "range": "1.. sparse",
        "hex": "2001",
        "newest": 8,
        "entries": [[1, 1], [4, 4], [8, 8]],
        "complete": True,
        "certificates": [],
    }
    huge = culm("ranges", "show", "1..18446744073709551615", "--json").json
    assert huge["entries"] == [[1, 2**64 - 1]]


def test_hex_and_text(culm: Culm) -> None:
    """What can be read as text is text, unless it is marked as hex."""
    assert culm("ranges", "show", "2001").out.startswith("2001  (")
    assert culm("ranges", "show", "0x2001").out.startswith("1.. sparse  (2001)")
    assert culm("ranges", "show", "0001").out.startswith("1..  (0001)")


def test_operations(culm: Culm) -> None:
    """Merging, intersecting, and what is left of a range."""
    assert culm("ranges", "merge", "1..5", "6..9").out == "1..9  (800109)\n"
    assert "more than these ranges" in culm("ranges", "merge", "1..5", "7..9").out
    assert culm("ranges", "merge", "1..5", "6", "7", "--json").json == {"range": "1..7", "hex": "800107", "exact": True}
    assert culm("ranges", "intersect", "1..9", "3.. metadata").out == "3..9 metadata  (870309)\n"
    assert culm("ranges", "diff", "1..10", "4..6").out == "1..3  (800103)\n7..10  (80070a)\n"
    assert culm("ranges", "diff", "1..10", "1..").out == "nothing\n"
    assert culm("ranges", "diff", "1.. sparse", "1..4", "--newest", "20", "--json").json == [
        {"range": "13..20 sparse", "hex": "a00d14"}
    ]


@pytest.mark.parametrize(
    "call",
    [
        ("show", "zz"),
        ("show", "1..3 sprse"),
        ("show", "0xzz"),
        ("show", "0x8005"),
        ("show", ""),
        ("show", "1..", "--newest", "-1"),
        ("diff", "1.. sparse", "5"),
        ("merge", "1..2", "2..1"),
    ],
)
def test_wrong_calls(culm: Culm, call: tuple[str, ...]) -> None:
    """What is no range is one line and exit code 2."""
    result = culm("ranges", *call)
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
