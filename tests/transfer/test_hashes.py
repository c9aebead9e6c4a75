"""Hashes that are remembered for the links of later entries."""

from __future__ import annotations

from culm.bamboo import lipmaa
from culm.bamboo.lipmaa import links_across
from culm.transfer import LinkHashes

MANY = 3000


def test_every_link_that_can_come_is_known() -> None:
    """Along a log, the targets of both links of the next entry are remembered, with little memory."""
    hashes = LinkHashes(64)
    for seq in range(1, MANY):
        hashes.add(seq, b"%d" % seq)
        assert len(hashes) <= 65
        for target in {seq, lipmaa(seq + 1)}:
            assert hashes.get(target) == b"%d" % target


def test_a_number_that_is_kept_for_good() -> None:
    """The hash that a request names is never dropped; another one of that age is."""
    hashes = LinkHashes(16, also=7)
    for seq in range(5, MANY):
        hashes.add(seq, b"%d" % seq)
    assert hashes.get(7) == b"7"
    assert hashes.get(8) is None
    assert hashes.get(8, b"other") == b"other"


def test_adding_says_when_others_were_dropped() -> None:
    """Who keeps something beside the hashes learns when it is time to drop that, too."""
    hashes = LinkHashes(3)
    assert [hashes.add(seq, b"") for seq in (1, 2, 3, 4)] == [False, False, False, True]


def test_what_entries_behind_can_link_to() -> None:
    """No entry behind a number links to one that is left out."""
    for seq in (1, 4, 13, 14, 40, 100):
        targets = {target for above in range(seq + 1, 4 * seq + 2) for target in (above - 1, lipmaa(above))}
        assert {target for target in targets if target <= seq} <= set(links_across(seq))
