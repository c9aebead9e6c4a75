"""Refusing those who broke the rules, for a growing while; and not being called too often from one address.

Nothing here reads a clock: ``now`` is an argument, in seconds. Memory is bounded whoever comes.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Generic, TypeVar

MAX_RECORDS = 4096
_MAX_DOUBLINGS = 32
Key = TypeVar("Key")


@dataclass(slots=True)
class _Record:
    """``strikes`` offences that are not forgiven; refused until ``until``, for ``penalty`` seconds the last time."""

    strikes: int
    until: float
    penalty: float
    probed: float  # when one was let through last while refused


class Penalties(Generic[Key]):
    """Who is refused, and until when.

    The first offence costs ``first`` seconds, each further one twice as much, ``most`` at most. An offence is forgiven
    after as long a time without another one as it cost, behind the end of the penalty; or for a good session. While
    somebody is refused one attempt in each quarter of the penalty is let through: behind an address there may be
    others. Of more than ``capacity`` records those go first whose penalty ends, or ended, first.
    """

    def __init__(self, first: float, most: float, capacity: int = MAX_RECORDS) -> None:
        self._first = first
        self._most = most
        self._capacity = capacity
        self._records: OrderedDict[Key, _Record] = OrderedDict()

    def __len__(self) -> int:
        return len(self._records)

    def blame(self, key: Key, now: float) -> float:
        """An offence: the seconds that its author is refused for, from now on."""
        if not self._first:
            return 0.0
        strikes = self._strikes(key, now)
        penalty = min(self._most, self._first * 2.0 ** min(strikes, _MAX_DOUBLINGS))
        record = self._records.get(key)
        left = penalty if record is None else max(record.until - now, penalty)
        # Who goes on breaking the rules takes no turn from the others behind the same address.
        probed = now if record is None or now >= record.until else record.probed
        self._records[key] = _Record(strikes + 1, now + left, penalty, probed)
        while len(self._records) > self._capacity:
            del self._records[min(self._records, key=lambda other: self._records[other].until)]
        return left

    def forgive(self, key: Key, now: float) -> None:
        """A good session: one offence less."""
        strikes = self._strikes(key, now) - 1
        if strikes < 1:
            self._records.pop(key, None)
        else:
            self._records[key].strikes = strikes

    def refused_for(self, key: Key, now: float) -> float:
        """The seconds that are left of a penalty; 0 if there is none."""
        record = self._records.get(key)
        return 0.0 if record is None else max(0.0, record.until - now)

    def lets_through(self, key: Key, now: float) -> bool:
        """Whether an attempt of somebody who is refused is the one that is let through."""
        record = self._records.get(key)
        if record is not None and record.until > now:
            if now - record.probed < record.penalty / 4:
                return False
            record.probed = now
        return True

    def _strikes(self, key: Key, now: float) -> int:
        """The offences that are not forgiven yet."""
        record = self._records.get(key)
        if record is None:
            return 0
        if now <= record.until:
            return record.strikes
        return max(0, record.strikes - int((now - record.until) / max(record.penalty, self._first)))


class CallGate(Generic[Key]):
    """How often, and how many times at once, one address may call: ``a_minute`` (and as many in a row), ``at_once``."""

    def __init__(self, a_minute: int, at_once: int, capacity: int = MAX_RECORDS) -> None:
        self._rate = a_minute / 60
        self._burst = a_minute
        self._at_once = at_once
        self._capacity = capacity
        self._calls: OrderedDict[Key, tuple[float, float]] = OrderedDict()  # calls left, and when that was so
        self._open: dict[Key, int] = {}

    def __len__(self) -> int:
        return len(self._calls)

    def call(self, key: Key, now: float) -> str | None:
        """Somebody calls: why not, or None; then ``left`` is due when the call ends."""
        left, at = self._calls.pop(key, (float(self._burst), now))
        left = min(float(self._burst), left + max(0.0, now - at) * self._rate)
        refusal = None
        if left < 1:
            refusal = f"more than {self._burst} calls a minute"
        elif self._open.get(key, 0) >= self._at_once:
            refusal = f"{self._at_once} connections are open"
        self._calls[key] = left - (refusal is None), now
        while len(self._calls) > self._capacity:
            self._calls.popitem(last=False)
        if refusal is None:
            self._open[key] = self._open.get(key, 0) + 1
        return refusal

    def left(self, key: Key) -> None:
        """A call has ended."""
        count = self._open.pop(key, 0) - 1
        if count > 0:
            self._open[key] = count
