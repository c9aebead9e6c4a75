"""The order of entries: by what they stand on, then by hash."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from culm.views.order import Unplaced, heights


def entry(name: str, before: str | None = None, *references: str) -> Unplaced:
    """An entry whose hash is its name."""
    return Unplaced(name.encode(), before.encode() if before else None, tuple(each.encode() for each in references))


def test_heights() -> None:
    """An entry stands one above the highest of the one before it and of those that it refers to."""
    below = [entry("d", "c", "x"), entry("c", "b"), entry("b", None, "a"), entry("a")]
    found = heights([*below, entry("w", None, "unknown"), entry("v", "w")], {b"x": 9})
    assert found == {b"a": 1, b"b": 2, b"c": 3, b"d": 10}


@given(st.lists(st.sets(st.integers(0, 30)), max_size=30), st.randoms())
def test_any_order_gives_the_same(graph: list[set[int]], rng: object) -> None:
    """Heights do not depend on the order in which entries are given, nor on how many are placed at a time."""
    made = [
        entry(f"{at}", None, *(f"{below}" for below in sorted(refs) if below < at)) for at, refs in enumerate(graph)
    ]
    at_once = heights(made, {})
    assert len(at_once) == len(made)
    rng.shuffle(made)  # type: ignore[attr-defined]
    known: dict[bytes, int] = {}
    waiting: list[Unplaced] = []
    for each in made:
        waiting.append(each)
        known |= heights(waiting, known)
        waiting = [one for one in waiting if one.hash not in known]
    assert known == at_once
