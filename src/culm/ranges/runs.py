"""Sets of sequence numbers, kept as runs of neighbours.

A node holds nearly all entries of most logs. A run for each gap therefore costs little where a set of a million numbers
would cost tens of megabytes.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import groupby

from culm.types import Run


class Runs:
    """A set of numbers as ascending runs, both ends included, that do not touch. It costs its gaps, not its length."""

    __slots__ = ("_firsts", "_lasts")

    def __init__(self, runs: Iterable[Run] = ()) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        for first, last in runs:
            self.add(first, last)

    def __iter__(self) -> Iterator[Run]:
        return zip(self._firsts, self._lasts, strict=True)

    def __bool__(self) -> bool:
        return bool(self._firsts)

    def __len__(self) -> int:
        """The number of runs."""
        return len(self._firsts)

    def __contains__(self, number: int) -> bool:
        return self.around(number) is not None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Runs) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def around(self, number: int) -> Run | None:
        """The run that a number is in, None if there is none."""
        at = bisect_right(self._firsts, number) - 1
        if at >= 0 and self._lasts[at] >= number:
            return self._firsts[at], self._lasts[at]
        return None

    def above(self, number: int) -> int | None:
        """The first number of the next run that begins above a number, None if there is none."""
        at = bisect_right(self._firsts, number)
        return self._firsts[at] if at < len(self._firsts) else None

    def outside(self, low: int, high: int) -> list[Run]:
        """The parts of the span from ``low`` to ``high`` that are not in the set."""
        rest: list[Run] = []
        for at in range(bisect_left(self._lasts, low), bisect_right(self._firsts, high)):
            if low < self._firsts[at]:
                rest.append((low, self._firsts[at] - 1))
            low = self._lasts[at] + 1
        if low <= high:
            rest.append((low, high))
        return rest

    @property
    def extent(self) -> Run | None:
        """The least and the greatest number; None if the set is empty."""
        return (self._firsts[0], self._lasts[-1]) if self._firsts else None

    def add(self, first: int, last: int) -> None:
        """Add the numbers from ``first`` to ``last``, joining the runs that they touch."""
        firsts, lasts = self._firsts, self._lasts
        if lasts and firsts[-1] <= first <= lasts[-1] + 1:  # a short cut, because numbers mostly come in order
            lasts[-1] = max(lasts[-1], last)
            return
        low = bisect_right(firsts, first) - 1
        if low < 0 or lasts[low] < first - 1:
            low += 1
        else:
            first = firsts[low]
        high = bisect_right(firsts, last + 1)
        if high > low:
            last = max(last, lasts[high - 1])
        firsts[low:high] = [first]
        lasts[low:high] = [last]


def runs_of(numbers: Iterable[int]) -> Iterator[Run]:
    """The runs of consecutive numbers among ascending numbers: first and last of each."""
    if isinstance(numbers, list) and numbers and numbers[-1] - numbers[0] == len(numbers) - 1 == len(set(numbers)) - 1:
        yield numbers[0], numbers[-1]  # As mostly: one run, found without a look at each number.
        return
    for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        members = [number for _, number in run]
        yield members[0], members[-1]
