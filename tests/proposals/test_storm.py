"""Storms: two endpoints that propose, confirm, adjust, cancel, append and forget at random, over chopped bytes.

Specification: docs/specs/proposals.md, "State".
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass

import pytest

from culm.bamboo import Identity, lipmaa, path
from culm.proposals import Code, Eagerness, Limits, Proposal, Setup, Wish
from culm.proposals.messages import Adjust
from culm.proposals.states import Said
from culm.testing.builders import LogBuilder
from tests.proposals.pair import Pair, Side

STORMS = int(os.environ.get("CULM_STORM", "160"))
GROUPS = 20


@dataclass
class Storm:
    """One run: a seed decides everything."""

    seed: int

    def __post_init__(self) -> None:
        self.rng = rng = random.Random(self.seed)
        self.greedy = rng.random() < 0.4
        window = rng.choice((0, 64, 1024, 65536))
        limits = Limits(
            proposals=rng.choice((2, 8, 100)), window=rng.choice((300, 3000, 100_000)), chunk=rng.choice((50, 4096)),
            runs=rng.choice((4, 100)), hashes=rng.choice((40, 256)),
        )  # fmt: skip
        self.a, self.b = (
            Side(
                proactive=proactive,
                setup=Setup(self.greedy, self.greedy, window, rng.choice((window, 10**6))),
                limits=limits,
            )
            for proactive in (True, False)
        )
        self.sides = (self.a, self.b)
        for side in self.sides:
            side.may_skip = rng.random() < 0.7
        self.pair = Pair(self.a, self.b, rng)
        self.logs = [self._log(number) for number in range(rng.randint(1, 2))]
        for log in self.logs:
            for side in self.sides:
                self._stock(side, log)

    def _log(self, number: int) -> LogBuilder:
        log = LogBuilder(Identity(bytes([number + 1]) * 32), number)
        length = self.rng.choice((1, 3, 14, 45))
        for at in range(length):
            log.append(self._payload(), is_end=at == length - 1 and self.rng.random() < 0.2)
        return log

    def _payload(self) -> bytes:
        kind = self.rng.random()
        if kind < 0.15:
            return b""
        size = self.rng.choice((3, 40, 300, 2000))
        return self.rng.randbytes(size) if kind < 0.5 else (b"culm, bamboo and reed; " * 100)[:size]

    def _stock(self, side: Side, log: LogBuilder) -> None:
        held = self.rng.randint(0, len(log.entries))
        for entry in log.entries[:held]:
            payload = log.payloads[entry.hash]
            if self.rng.random() < 0.8:
                side.put(entry, payload)
            else:
                side.put(entry, payload[: self.rng.randint(0, max(0, entry.size - 1))])

    # -- what happens ------------------------------------------------------------------------------------------

    def act(self) -> None:
        """Something happens at one side."""
        side = self.rng.choice(self.sides)
        self.rng.choice((self.propose, self.propose, self.adjust, self.cancel, self.append, self.lose))(side)

    def propose(self, side: Side) -> None:
        """Propose anything that may be proposed."""
        rng, log = self.rng, self.rng.choice(self.logs)
        held = [entry for entry in log.entries if side.store.held(entry.log).entries_around(entry.seq)]
        top = held[-1].seq if held else 0
        start = rng.randint(1, len(log.entries) + 2)
        end = None if rng.random() < 0.4 else start + rng.choice((0, 1, 5, 30))
        sparse = end is not None and rng.random() < 0.3
        upper = None if end is None else end + rng.choice((0, 0, 20))
        payload_only = end is not None and end <= top and rng.random() < 0.3
        lower: int | None = rng.choice(path(start, 1))
        offset, value, begun = None, None, None
        if start <= top and rng.random() < 0.4:
            entry = log.entries[start - 1]
            lower, value = None, entry.hash
            offset = entry.size if side.store.is_complete(entry) else len(side.store.bytes.get(entry.hash, b""))
            begun = side.begun(entry)
        elif lower != 1:
            if lipmaa(lower) > top:
                return
            value = log.entries[lipmaa(lower) - 1].hash
        proposal = Proposal(
            0,
            *log.entries[0].log,
            start,
            lower,
            end,
            upper,
            value,
            offset,
            self.wish(),
            rng.choice((0, 0, 10)),
            rng.choice((2**64 - 1, 2**64 - 1, 500)),
            payload_only,
            sparse,
            mandatory=rng.random() < 0.3,
        )
        if side.connection.may_propose(proposal):
            side.connection.propose(proposal, begun)

    def wish(self) -> Eagerness:
        """How much to ask for."""
        wish = self.rng.choice((Wish.ALL, Wish.ALL, Wish.LIMITED, Wish.NOTIFY))
        return Eagerness(wish, self.rng.choice((10, 300, 5000)) if wish is Wish.LIMITED else 0)

    def adjust(self, side: Side) -> None:
        """Change what is wanted of a proposal."""
        for exchange in side.connection.exchanges.values():
            if exchange.has(Said.CANCEL_SENT) or not (exchange.is_ours or exchange.has(Said.CONFIRMED)):
                continue
            least = exchange.ours.least + self.rng.randint(0, 20)
            side.connection.adjust(Adjust(exchange.id, self.wish(), self.rng.random() < 0.3, least=least))
            return

    def cancel(self, side: Side) -> None:
        """Give up a proposal."""
        if side.connection.exchanges and self.rng.random() < 0.4:
            code = self.rng.choice((Code.DO_NOT_RETRY, Code.RESOURCE_LIMIT))
            side.connection.cancel(self.rng.choice(list(side.connection.exchanges)), code)

    def append(self, side: Side) -> None:
        """A new entry, at one side."""
        log = self.rng.choice(self.logs)
        if not log.entries[-1].is_end and len(side.store.items(log.entries[0].log)[0]) == 1:
            run = side.store.items(log.entries[0].log)[0][0]
            if run == (1, len(log.entries)):
                entry = log.append(self._payload(), is_end=self.rng.random() < 0.05)
                side.put(entry, log.payloads[entry.hash])

    def lose(self, side: Side) -> None:
        """A payload gets lost, or what was held of one turns out to be wrong."""
        entry = self.rng.choice(self.rng.choice(self.logs).entries)
        if side.store.held(entry.log).entries_around(entry.seq) and self.rng.random() < 0.3:
            others = [other for other in self.sides if other is not side and other.store.is_complete(entry)]
            if others:
                side.drop(entry)

    # -- afterwards --------------------------------------------------------------------------------------------

    def calm_down(self) -> None:
        """Cancel everything."""
        for side in self.sides:
            for exchange in list(side.connection.exchanges.values()):
                side.connection.cancel(exchange.id)
        self.pair.run()
        for side in self.sides:
            for offered in list(side.connection.exchanges):
                side.connection.cancel(offered)
        self.pair.run()

    def make_whole(self) -> None:
        """Both ask for all they lack, of what either has."""
        for side in self.sides:
            side.may_skip, side.wish = True, Eagerness()
            for log in self.logs:
                for entry in log.entries:
                    if not side.store.is_complete(entry):
                        side.drop(entry)
        for log in self.logs:
            last = len(log.entries)
            self.a.connection.propose(Proposal(0, *log.entries[0].log, 1, 1, last, last))
            self.pair.run()
            self.calm_down()

    def check(self) -> None:
        """Both hold what either held; nothing lives."""
        for log in self.logs:
            for entry in log.entries:
                held = [bool(side.store.held(entry.log).entries_around(entry.seq)) for side in self.sides]
                complete = [side.store.is_complete(entry) for side in self.sides]
                assert held[0] == held[1], entry.seq
                assert complete[0] == complete[1], entry.seq
                for side in self.sides:
                    if side.store.is_complete(entry):
                        assert side.store.bytes[entry.hash] == log.payloads[entry.hash]
        for side in self.sides:
            assert not side.connection.exchanges
            assert side.connection.register.pending == 0
            assert len(side.connection.register.tombstones) <= 2 * side.connection.limits.proposals
            assert not side.connection.register.early
            assert not side.connection.register.owed

    def run(self) -> None:
        """All of it."""
        for _ in range(self.rng.randint(5, 60)):
            self.act()
            for _ in range(self.rng.choice((0, 1, 3, 20))):
                self.pair.step()
        self.pair.run()
        self.calm_down()
        assert not self.a.connection.exchanges, self.a.connection.exchanges
        assert not self.b.connection.exchanges
        self.make_whole()
        self.check()


@pytest.mark.slow
@pytest.mark.parametrize("group", range(GROUPS))
def test_storms(group: int) -> None:
    """No message between two honest endpoints is ever invalid, and afterwards both hold what either held."""
    for seed in range(group, STORMS, GROUPS):
        try:
            Storm(seed).run()
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error
