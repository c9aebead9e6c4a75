"""Penalties: a peer that broke the rules is refused for a while; and a gate against too many calls of one address.

Breaking the rules is cheap for an attacker and expensive for us: each attempt costs a handshake, signature checks, disk
reads. Banning for ever would be simple, but a bug in an honest peer, or a stranger behind the same router, breaks rules
too, and nobody would ever lift the ban. A fixed short ban costs a persistent attacker nothing.

So a penalty doubles with each offence, like the time a phone stays locked after wrong PINs: 10 s, 20 s, 40 s, up to an
hour. It is forgotten again: an offence is forgiven after as much good time as it cost, or by one good session. And it
has a small hole: once in each quarter of a penalty one attempt is let through, because the next caller from that
address may be somebody else.

Nothing here reads a clock: ``now`` is an argument, in seconds. Memory is bounded, since the number of records is.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Generic, TypeVar

MAX_RECORDS = 4096
"""Identities or addresses that are remembered. An attacker can invent any number of them, so there has to be a bound;
it forgets those that would be free the soonest."""
_MAX_DOUBLINGS = 32  # 2^32 seconds are 136 years: longer than any ``most``, and far from overflowing a float.
Key = TypeVar("Key")


@dataclass(slots=True)
class _Record:
    strikes: int  # Offences that were not forgiven when the last one was recorded.
    until: float
    penalty: float  # Seconds that the last offence cost.
    probed: float  # When an attempt was let through last, while refused.


class Penalties(Generic[Key]):
    """Which keys (identities, or addresses) are refused, and until when.

    The first offence costs ``first`` seconds (0: nobody is ever refused), each further one twice as much, up to
    ``most``. After the end of a penalty, each further stretch of that length without an offence forgives one. At most
    ``capacity`` records are kept; those whose penalty ends first are forgotten first.
    """

    def __init__(self, first: float, most: float, capacity: int = MAX_RECORDS) -> None:
        self._first = first
        self._most = most
        self._capacity = capacity
        self._records: dict[Key, _Record] = {}

    def __len__(self) -> int:
        return len(self._records)

    def blame(self, key: Key, now: float) -> float:
        """Record an offence; the seconds that the key is refused for, from now on."""
        if not self._first:
            return 0.0
        strikes = self._strikes(key, now)
        penalty = min(self._most, self._first * 2.0 ** min(strikes, _MAX_DOUBLINGS))
        record = self._records.get(key)
        left = penalty if record is None else max(record.until - now, penalty)
        # Keep the time of the last probe. If each offence set it to now, an attacker that offends all the time would
        # keep the others behind its address from ever being let through.
        probed = now if record is None or now >= record.until else record.probed
        self._records[key] = _Record(strikes + 1, now + left, penalty, probed)
        self._bound()
        return left

    def forgive(self, key: Key, now: float) -> None:
        """Forgive one offence, because a session was good."""
        strikes = self._strikes(key, now) - 1
        if strikes < 1:
            self._records.pop(key, None)
        else:
            self._records[key].strikes = strikes

    def standing(self, key: Key, now: float) -> tuple[int, float, float]:
        """The offences that are not forgiven, the seconds until the penalty ends (less than 0: since then), its length.

        All are 0 if there is no offence. ``restore`` takes them.
        """
        record = self._records.get(key)
        return (0, 0.0, 0.0) if record is None else (record.strikes, record.until - now, record.penalty)

    def restore(self, key: Key, strikes: int, left: float, penalty: float, now: float) -> None:
        """Take over a standing that was kept.

        The penalty lasts at most its length from now on, because the clock that it was kept with may have jumped.
        """
        if not (strikes and self._first):
            self._records.pop(key, None)
            return
        penalty = min(max(penalty, self._first), self._most)
        self._records[key] = _Record(strikes, now + min(left, penalty), penalty, now)
        self._bound()

    def refused_for(self, key: Key, now: float) -> float:
        """The seconds that are left of a penalty; 0 if there is none."""
        record = self._records.get(key)
        return 0.0 if record is None else max(0.0, record.until - now)

    def lets_through(self, key: Key, now: float) -> bool:
        """Whether to admit an attempt of a key that may be refused: one in each quarter of a penalty is.

        Asking uses the attempt up. A key that is not refused is always let through.
        """
        record = self._records.get(key)
        if record is not None and record.until > now:
            if now - record.probed < record.penalty / 4:
                return False
            record.probed = now
        return True

    def _bound(self) -> None:
        while len(self._records) > self._capacity:
            del self._records[min(self._records, key=lambda other: self._records[other].until)]

    def _strikes(self, key: Key, now: float) -> int:
        record = self._records.get(key)
        if record is None:
            return 0
        if now <= record.until:
            return record.strikes
        return max(0, record.strikes - int((now - record.until) / max(record.penalty, self._first)))


class CallGate(Generic[Key]):
    """How often one address may call, and how many of its connections may be open.

    A token bucket for each address (see ``culm.node.sharing.rates``): it holds ``a_minute`` calls, and fills up at that
    rate. So a host may make that many calls in a row, and twice as many within one minute at the very most.
    """

    def __init__(self, a_minute: int, at_once: int, capacity: int = MAX_RECORDS) -> None:
        self._rate = a_minute / 60
        self._burst = a_minute
        self._at_once = at_once
        self._capacity = capacity
        self._calls: OrderedDict[Key, tuple[float, float]] = OrderedDict()  # Calls left, and when that was counted.

    def __len__(self) -> int:
        return len(self._calls)

    def call(self, key: Key, now: float, is_open: int) -> str | None:
        """Count a call of an address with ``is_open`` connections already; why it is refused, or None."""
        left, at = self._calls.pop(key, (float(self._burst), now))
        left = min(float(self._burst), left + max(0.0, now - at) * self._rate)
        refusal = None
        if left < 1:
            refusal = f"its address made more than {self._burst} calls a minute (max_address_calls)"
        elif is_open >= self._at_once:
            refusal = f"its address has {self._at_once} connections open already (max_address_sessions)"
        self._calls[key] = left - (refusal is None), now
        while len(self._calls) > self._capacity:
            self._calls.popitem(last=False)
        return refusal
