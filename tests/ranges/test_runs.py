"""Runs of numbers, against a set of numbers."""

from __future__ import annotations

import random

import pytest

from culm.ranges.runs import Runs, runs_of


def test_runs_are_a_set_of_numbers() -> None:
    """Spans that are added in any order, apart, touching or overlapping, are the numbers they hold, in few runs."""
    rng = random.Random(1)
    for _ in range(200):
        runs, numbers = Runs(), set[int]()
        for _ in range(rng.randint(1, 12)):
            first = rng.randint(1, 30)
            last = first + rng.randint(0, 8)
            runs.add(first, last)
            numbers |= {*range(first, last + 1)}
            expected = list(runs_of(sorted(numbers)))
            assert expected == list(runs)
            assert (min(numbers), max(numbers)) == runs.extent
            for number in range(42):
                assert next((run for run in expected if run[0] <= number <= run[1]), None) == runs.around(number)
                assert (number in numbers) is (number in runs)
                assert next((run[0] for run in expected if run[0] > number), None) == runs.above(number)


@pytest.mark.parametrize(("first", "last", "expected"), [(5, 5, 9), (4, 6, 9), (9, 12, 12), (10, 10, 10)])
def test_a_span_behind_or_inside_the_last_run(first: int, last: int, expected: int) -> None:
    """A run never becomes shorter, whatever is added to it."""
    runs = Runs()
    runs.add(1, 2)
    runs.add(4, 9)
    runs.add(first, last)
    assert [(1, 2), (4, expected)] == list(runs)


def test_no_numbers() -> None:
    """Of an empty set nothing is around anything."""
    assert (None, None, False) == (Runs().extent, Runs().around(1), bool(Runs()))
    assert Runs() == Runs([])
    assert Runs() != []
