"""Which entries a request denotes, from its bytes.

Specification: docs/specs/bushbaby.md, "WANT".
"""

from __future__ import annotations

import pytest

from culm.bushbaby import Limits
from culm.bushbaby.messages import decode_want
from culm.node.bushbaby.serving import spans_of

AUTHOR = "78 2b" + 43 * "30"  # A string of 43 base62 characters, all 0.


@pytest.mark.parametrize(
    ("numbers", "document", "deployed"),
    [
        ("83 %s 00 01", [(1, 1)], [(1, 1)]),
        # The certificate pool of 5 is 1, 4, 5, 6, 7, 8, 12, 13: the document asks for the part from 1 to n.
        ("83 %s 00 05", [(1, 1), (4, 5)], [(1, 5)]),
        # That of 23 is 1, 4, 13, 17, 21, 22, 23, and 24, 25, 26, 39, 40.
        ("83 %s 00 17", [(1, 1), (4, 4), (13, 13), (17, 17), (21, 23)], [(1, 23)]),
        # Of a spine number, 40, the pool is its way to 1.
        ("83 %s 00 18 28", [(1, 1), (4, 4), (13, 13), (40, 40)], [(1, 40)]),
        ("84 %s 00 02 17", [(2, 23)], [(2, 23)]),
        ("82 %s 00", [(1, 2**64 - 1)], [(1, 2**64 - 1)]),
    ],
)
def test_what_a_request_denotes(numbers: str, document: list[tuple[int, int]], deployed: list[tuple[int, int]]) -> None:
    """A pool of n has no member above n: the document says "from sequence number 1 to n".

    The deployed peer asks so for a log of which it has nothing, and gets all entries from 1 to n.
    """
    (want,) = decode_want(memoryview(bytes.fromhex("81" + numbers % AUTHOR)), Limits())
    assert spans_of(want, is_deployed=False) == document
    assert spans_of(want, is_deployed=True) == deployed
