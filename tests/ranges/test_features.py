"""Ranges without the features that a node avoids.

Specification: docs/specs/ranges.md, "Restricted feature sets".
"""

from __future__ import annotations

import random

import pytest

from culm.errors import EncodingError
from culm.ranges import EMPTY, Feature, UnreadRanges, decode
from culm.ranges.features import features_of, first_used, set_as_it_is, without
from tests.quick import rounds
from tests.ranges.oracle import a_range, wanted


@pytest.mark.parametrize(
    ("features", "item", "said"),
    [
        ("open", "0001", "80016e"),  # all of a log of 10 entries: 1 to 110
        ("open", "2001", "80016e"),  # the path from 110 is not that from entry 11, so all entries are asked for
        ("open", "00f903e8", "80f903e8f9044b"),  # from 1000 on, which is not written yet: 1000 to 1099
        ("open", "080804", "88086e0400"),  # head-max 4 stays
        ("open", "01010107", "81016e0107"),  # payload 7 stays forbidden
        ("open", "a0010d", "a0010d"),
        ("sparse", "a0010d", "80010d"),
        ("sparse", "a00507", "800507"),  # entries 5, 6, 7, of which the path is all
        ("sparse", "2001", "0001"),
        ("sparse", "e005", "e005"),
        ("no-metadata", "f805", "e005"),
        ("no-payloads", "87010a", "80010a"),
        ("no-payloads", "e705", "e005"),
        ("sizes", "82010a0bf903e8", "80010a"),
        ("forbidden", "81010a020307", "80010a"),
        ("certificate-limits", "88080a040d", "80080a"),
        ("certificate-limits", "98010a", "98010a"),
        ("sparse sizes", "83010a0bf903e80107", "81010a0107"),
        (" ".join(Feature), "ff", "ff"),
        ("open", "00ffffffffffffffffff", "e0ffffffffffffffffff"),
    ],
)
def test_without(features: str, item: str, said: str) -> None:
    """Each feature that is avoided makes the range wider, in a log of 10 entries and with 100 ahead."""
    found = without(decode(bytes.fromhex(item)), {Feature(name) for name in features.split()}, 10, 100)
    assert said == found.encode().hex()


def test_nothing_is_lost() -> None:
    """A range without some features uses none of them, and has all that the range has, certificates included."""
    rng = random.Random(22)
    for _ in rounds(3000, 300):
        item, features = a_range(rng), set(rng.sample(list(Feature), rng.randint(0, 7)))
        found = without(item, features, rng.randint(0, 12), 12)
        assert features.isdisjoint(features_of(found.flags)), (item, features)
        assert first_used(set_as_it_is([found]), features) is None
        newest = rng.randint(1, 12)
        assert wanted(item, newest) <= wanted(found, newest), (item, features)


def test_a_set_as_it_is() -> None:
    """The ranges of a set are sent as they are, each once; the set would write 5 to 7 as a path."""
    dense = decode(bytes.fromhex("800507"))
    assert "02800507e009" == set_as_it_is([dense, decode(bytes.fromhex("e009")), dense]).encode().hex()
    assert "00" == set_as_it_is([]).encode().hex()
    assert EMPTY == without(EMPTY, set(Feature), 0, 10)


def test_where_the_use_of_a_feature_is_looked_for() -> None:
    """A set that ends early is malformed, and nothing is read behind the first use of a feature."""
    assert Feature.OPEN == first_used(UnreadRanges(bytes.fromhex("03 e005 0001 ffff")), {Feature.OPEN})
    with pytest.raises(EncodingError):
        first_used(UnreadRanges(bytes.fromhex("02 e005")), {Feature.OPEN})
