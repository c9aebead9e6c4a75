"""The worked examples and malformed inputs of the specification, from tests/vectors/ranges.

Specification: docs/specs/ranges.md, "Parameters", "Reduced form", "Certificates", "Corner cases", "hull", "merge",
"Encoding", "Errors", "Restricted feature sets", "Worked examples".
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from culm.errors import EncodingError, Truncated
from culm.ranges import (
    EMPTY,
    Range,
    decode,
    difference,
    encode,
    extend,
    hull,
    intersect,
    merge,
    normalise,
    onbytes,
    trim,
)
from culm.ranges.encoding import VALID_FLAGS

DOCUMENT = json.loads((Path(__file__).parents[1] / "vectors" / "ranges" / "examples.json").read_text())
EXAMPLES = {example["n"]: example for example in DOCUMENT["examples"]}
FULL = Range(1, 10)


def of_kind(kind: str) -> list[Any]:
    """The examples of a kind, each named by its number."""
    return [pytest.param(example, id=str(example["n"])) for example in EXAMPLES.values() if example["kind"] == kind]


def read(text: str) -> Range:
    """A range from hex."""
    return decode(bytes.fromhex(text))


@pytest.mark.parametrize("example", of_kind("one"))
def test_encodings(example: dict[str, Any]) -> None:
    """Every example is read and written as it stands."""
    assert encode(read(example["hex"])).hex() == example["hex"]


@pytest.mark.parametrize(
    ("item", "number"),
    [
        (Range(5, 5), 1),
        (Range(5, 5, metadata=False), 2),
        (Range(5, 5, payloads=False), 3),
        (Range(5, 5, metadata=False, payloads=False), 4),
        (Range(1), 5),
        (Range(1000), 6),
        (Range(1, 10), 7),
        (Range(1, 13, sparse=True), 8),
        (Range(1, sparse=True), 9),
        (Range(1, 10, metadata=False), 10),
        (Range(1, 10, payloads=False), 11),
        (Range(1, 10, least_size=11, size_limit=1000), 12),
        (Range(1, 10, least_size=1), 13),
        (Range(1, 10, least_size=10, size_limit=10), 14),
        (Range(1, 10, forbidden=(7, 3, 3)), 15),
        (Range(1, 10, forbidden=(3, 99)), 16),
        (Range(5, 5, forbidden=(5,)), 17),
        (Range(5, 5, metadata=False, forbidden=(5,)), 4),
        (Range(8, 10), 18),
        (Range(8, 10, head_max=4, tail_min=13), 19),
        (Range(8, 10, head_max=5), 20),
        (Range(8, 10, head_max=8, tail_min=10), 21),
        (Range(8, head_max=4, tail_min=13), 22),
        (Range(23, 23), 23),
        (Range(1, 2**64 - 1), 24),
        (Range(5, 7, sparse=True), 25),
        (Range(1, 1000, forbidden=(300, 500)), 26),
    ],
)
def test_meanings(item: Range, number: int) -> None:
    """The parameters an example names give its bytes."""
    assert encode(item).hex() == EXAMPLES[number]["hex"]


def test_certificates_of_examples() -> None:
    """The pools that the examples name."""
    assert read("80080a").certificates(200) == [1, 4, 11, 12, 13]
    assert read("88080a040d").certificates(200) == [11, 12]
    assert read("88080a080a").certificates(200) == []
    assert read("e017").certificates(200) == [1, 4, 13, 17, 21, 22, 24, 25, 26, 39, 40]
    assert [list(read("2001").numbers(newest)) for newest in (7, 8)] == [[1, 4, 5, 6, 7], [1, 4, 8]]
    assert (encode(normalise(read(EXAMPLES[24]["hex"]))).hex(), encode(normalise(read("800507"))).hex()) == (
        "0001",
        "a00507",
    )


@pytest.mark.parametrize("example", of_kind("merge"))
def test_hull_and_merge(example: dict[str, Any]) -> None:
    """Hull and merge of each pair, in either order, as values and on bytes."""
    a, b = read(example["a"]), read(example["b"])
    for one, other in ((a, b), (b, a)):
        assert encode(hull(one, other)).hex() == example["hull"]
        joined, exact = merge(one, other)
        assert (encode(joined).hex(), exact) == (example["merge"], example["exact"])
        assert onbytes.hull_bytes(encode(one), encode(other)).hex() == example["hull"]
        data, exact = onbytes.merge_bytes(encode(one), encode(other))
        assert (data.hex(), exact) == (example["merge"], example["exact"])


def test_merging_is_not_associative_in_forbidden_numbers() -> None:
    """Example 46."""
    a, b, c = read("8102040103"), read("e002"), read("e004")
    assert encode(hull(hull(a, b), c)).hex() == encode(hull(a, hull(b, c))).hex() == "800204"
    one, exact = merge(merge(a, b)[0], c)
    assert (encode(one).hex(), exact) == ("8102040103", True)
    assert encode(merge(a, merge(b, c)[0])[0]).hex() == "800204"


@pytest.mark.parametrize("example", of_kind("op"))
def test_operations(example: dict[str, Any]) -> None:
    """Trim, intersect, extend and difference, as values and on bytes."""
    text, expected, exact = example["op"], example["res"], example["exact"]
    ranges = [bytes.fromhex(found) for found in re.findall(r"`([0-9a-f]+)`", text)]
    low, _, high = text.rpartition(" to ")[2].partition("..")
    bounds = (int(low), int(high) if high else None) if " to " in text else (1, None)
    if text.startswith("trim"):
        item, found = trim(decode(ranges[0]), *bounds)
        assert (encode(item).hex(), found) == (expected, exact)
        assert onbytes.trim_bytes(ranges[0], *bounds) == (encode(item), exact)
    elif text.startswith("intersect"):
        item, found = intersect(decode(ranges[0]), decode(ranges[1]))
        assert (encode(item).hex(), found) == (expected, exact)
        assert onbytes.intersect_bytes(*ranges) == (encode(item), exact)
    elif text.startswith("extend"):
        assert encode(extend(decode(ranges[0]), *bounds)).hex() == expected
        assert onbytes.extend_bytes(ranges[0], *bounds).hex() == expected
    else:
        assert "minus" in text
        assert [encode(piece).hex() for piece in difference(decode(ranges[0]), [decode(ranges[1])])] == expected


@pytest.mark.parametrize(("data", "kind", "why"), DOCUMENT["malformed"])
def test_malformed(data: str, kind: str, why: str) -> None:
    """Every malformed example is refused, with the place."""
    with pytest.raises(EncodingError) as caught:
        read(data)
    assert (kind == "truncated") == isinstance(caught.value, Truncated), why
    assert caught.value.offset is not None


def test_flags() -> None:
    """Of the 256 flags bytes 65 stand for something."""
    assert len(VALID_FLAGS) == 65


def test_long_lists_are_refused() -> None:
    """A list of forbidden numbers beyond the receiver's limit is refused before it is read."""
    data = encode(Range(1, 2000, forbidden=tuple(range(1, 600))))
    with pytest.raises(EncodingError, match="bytes of forbidden numbers"):
        decode(data)
    assert decode(data, max_forbidden_bytes=10_000).forbidden == tuple(range(1, 600))


@pytest.mark.parametrize(("start", "end"), [(0, None), (5, 4), (1, 2**64), (2**64, None), (0, 5)])
def test_wrong_numbers(start: int, end: int | None) -> None:
    """What is no range of sequence numbers is an error, not an empty range."""
    with pytest.raises(ValueError, match="not a range"):
        Range(start, end)


def test_nothing_is_one_value() -> None:
    """A range that asks for neither metadata nor payloads is the empty one, whatever else it says."""
    found = Range(3, 9, sparse=True, metadata=False, payloads=False, forbidden=(4,), head_max=1, tail_min=13)
    assert EMPTY == found
    assert (0, 0, False, (), 0, 0) == (
        found.start, found.end, found.sparse, found.forbidden, found.head_max, found.tail_min,
    )  # fmt: skip
