"""Two endpoints in a storm: random stores, requests, news, cancellations, adjustments, bytes chopped at random.

Requests have trust anchors, local forks and hashes that are not the peer's; in some storms a log is forked. Whatever
happens, no message is ever invalid, and once the storm is over both have what they asked for, and show their forks.
``CULM_STORM=10000`` runs more seeds, ``CULM_STORM_FROM`` begins elsewhere (``make storm``).

Specification: docs/specs/intervals.md, "States".
"""

from __future__ import annotations

import os
import random
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import pytest

from culm.bamboo import Identity, lipmaa, path
from culm.errors import LocalProtocolError
from culm.intervals import (
    At,
    Ended,
    Event,
    Forks,
    FromGreatest,
    FromLeast,
    Interval,
    Limits,
    MetadataOnly,
    Regular,
    Single,
    SingleOffset,
)
from culm.intervals.states import Ours
from culm.testing.builders import LogBuilder
from tests.intervals.pair import Side

if TYPE_CHECKING:
    from typing import Any

    from culm.ranges.runs import Runs

DEFERRED = {Ours.DEFERRED, Ours.DEFERRED_CLOSING}
SEEDS = int(os.environ.get("CULM_STORM", "40"))
FIRST = int(os.environ.get("CULM_STORM_FROM", "0"))
LENGTH = 45
COMMON = 9  # entries of the forked log before its fork
BATCH = 10


@cache
def logs() -> tuple[LogBuilder, ...]:
    """Four logs that all storms share, with payloads from nothing to some hundred bytes."""
    rng = random.Random(7)
    found = []
    for number in range(4):
        log = LogBuilder(Identity(bytes([number + 1] * 32)), number)
        for _ in range(LENGTH):
            size = rng.choice((0, 0, 1, 20, 20, 200, 300, 700))
            log.append(rng.randbytes(size))
        found.append(log)
    return tuple(found)


@cache
def branches() -> tuple[LogBuilder, LogBuilder]:
    """Two branches of one log."""
    rng = random.Random(8)
    first, second = (LogBuilder(Identity(bytes([9] * 32)), 9) for _ in range(2))
    for _ in range(LENGTH):
        if len(first.entries) == COMMON:
            second.entries, second.payloads = first.entries[:], dict(first.payloads)
        first.append(rng.randbytes(rng.choice((0, 1, 20, 300))))
    for _ in range(LENGTH - COMMON):
        second.append(rng.randbytes(rng.choice((0, 1, 20, 300))))
    return first, second


def named(interval: Interval, own: bytes) -> Interval:
    """An interval whose start names its entry: otherwise a peer with another branch sends the payload of that one."""
    match interval:
        case Single():
            return replace(interval, own=own)
        case Regular(At() as start, end):
            return Regular(replace(start, own=own), end)
    return interval


class Forking(Side):
    """A side that also stores the entries that prove a fork."""

    def notice(self, event: Event) -> None:
        """Store what an event brings."""
        super().notice(event)
        if isinstance(event, Ended):
            for entry in event.proof:
                self.put(entry)


class Storm:
    """One storm."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        limits = Limits(
            requests=self.rng.choice((3, 5, 50)),
            window=self.rng.choice((30, 150, 500, 10_000)),
            chunk=self.rng.choice((7, 60, 1000)),
        )
        stateless = self.rng.random()
        self.a = Forking(limits=limits, stateless=stateless < 0.1)
        self.b = Forking(limits=limits, stateless=stateless > 0.9)
        self.pipes: dict[str, bytearray] = {"a": bytearray(), "b": bytearray()}  # on the way to
        *self.logs, self.followed = logs()
        self.published = 0
        for side in (self.a, self.b):
            for log in self.logs:
                self.fill(side, log)
        self.is_forked = self.rng.random() < 0.4
        if self.is_forked:
            self.logs.append(branches()[0])
            for side in (self.a, self.b):
                side.store.looks_for_forks = True
                for branch in branches():
                    self.fill(side, branch)
        # Both follow the last log, which is written at one side, from beginning to end.
        self.kept: list[tuple[Side, int]] = []
        self.calm()
        if not (self.a.connection.theirs.stateless or self.b.connection.theirs.stateless):
            for side in (self.a, self.b):
                key = self.followed.identity.public, self.followed.log_id
                self.kept.append((side, side.connection.request(*key, Regular(At(1, 0), FromGreatest(0)))))

    def fill(self, side: Side, log: LogBuilder) -> None:
        """Give a side some of a log: entries whose path is held, and some of their payloads."""
        have = set()
        for _ in range(self.rng.randrange(4)):
            seq = self.rng.randrange(1, 30)
            have |= set(path(seq, 1)) | set(range(max(1, seq - self.rng.randrange(12)), seq + 1))
        payloads = [seq for seq in have if self.rng.random() < 0.9]
        side.put_log(log, sorted(have), payloads)

    def bound(self) -> At | FromLeast | FromGreatest:
        """A random bound."""
        kind = self.rng.random()
        if kind < 0.2:
            return FromLeast(self.rng.choice((0, 1, 5, 100)))
        if kind < 0.4:
            return FromGreatest(self.rng.choice((0, 1, 5, 100)))
        return At(self.rng.randrange(1, 40), self.rng.choice((0, 0, 1, 2, 255)))

    def interval(self) -> Interval:
        """A random interval."""
        kind, seq = self.rng.random(), self.rng.randrange(1, 40)
        if kind < 0.6:
            return Regular(self.bound(), self.bound())
        if kind < 0.75:
            return Single(seq, self.rng.choice((0, 1, 255)), self.rng.choice((0, 1, 255)))
        if kind < 0.85:
            return SingleOffset(self.rng.choice((FromLeast, FromGreatest))(self.rng.randrange(4)))
        return MetadataOnly(seq, ascending=self.rng.random() < 0.5, dist=self.rng.choice((0, 1, 255)))

    def act(self) -> None:
        """Something happens at one side."""
        side = self.rng.choice((self.a, self.b))
        other = self.b if side is self.a else self.a
        kind, connection = self.rng.random(), side.connection
        ours = [request_id for request_id in connection.ours.requests if (side, request_id) not in self.kept]
        theirs = [request_id for request_id in connection.theirs.requests if (other, request_id) not in self.kept]
        try:
            if kind < 0.1:
                self.publish()
            elif kind < 0.35:
                self.ask(side)
            elif kind < 0.55:
                self.append(side)
            elif kind < 0.65 and ours:
                connection.ours.cancel(self.rng.choice(ours))
            elif kind < 0.85 and ours:
                self.adjust(side, self.rng.choice(ours))
            elif theirs and kind < 0.88:
                connection.theirs.refuse(self.rng.choice(theirs))
        except LocalProtocolError:
            pass  # no credit, or it was cancelled already

    def publish(self) -> None:
        """The next entry of the log that both follow."""
        if self.published < LENGTH:
            entry = self.followed.entries[self.published]
            self.published += 1
            self.a.put(entry, self.followed.payloads[entry.hash])

    def ask(self, side: Side) -> None:
        """Ask for something at random."""
        log = self.rng.choice(self.logs)
        interval = self.interval()
        offset = None
        if isinstance(interval, Single) or (isinstance(interval, Regular) and isinstance(interval.start, At)):
            seq = interval.seq if isinstance(interval, Single) else interval.start.seq  # type: ignore[union-attr]
            held = side.store.variants((log.identity.public, log.log_id), seq)
            if held and self.rng.random() < 0.5:
                offset = self.rng.randrange(held[0].entry.size + 1)
                if self.rng.random() < 0.7:
                    offset = min(offset, len(side.store.bytes.get(held[0].entry.hash, b"")))
                if offset > len(side.store.bytes.get(held[0].entry.hash, b"")):
                    offset = 0
                interval = named(interval, held[0].entry.hash)
        sizes = (self.rng.choice((None, None, None, 1, 100)), self.rng.choice((None, None, None, 250, 1000)))
        side.connection.request(
            log.identity.public,
            log.log_id,
            interval,
            least_size=sizes[0],
            greatest_size=sizes[1],
            payload_offset=offset,
            verified=self.rng.random() < 0.8,
            lazy=self.rng.random() < 0.4,
            **self.forks(log),
        )

    def forks(self, log: LogBuilder) -> dict[str, Any]:
        """How to treat forks: anywhere, or locally, perhaps with an entry that is trusted."""
        if self.rng.random() < 0.6:
            return {}
        entries = self.rng.choice(branches()).entries if log in branches() else log.entries
        entry = self.rng.choice(entries)
        return {"forks": Forks.LOCAL, "anchor": self.rng.choice((None, (entry.seq, entry.hash)))}

    def append(self, side: Side) -> None:
        """A side gets something new of a log: from elsewhere, as far as the other is concerned."""
        log = self.rng.choice(self.logs)
        held = side.store.held((log.identity.public, log.log_id)).entries
        candidates = [
            seq
            for seq in range(1, LENGTH + 1)
            if seq not in held and (seq == 1 or lipmaa(seq) in held or seq - 1 in held)
        ]
        if candidates:
            seq = self.rng.choice(candidates[:5])
            entry = log.entries[seq - 1]
            payload = log.payloads[entry.hash]
            cut = self.rng.random()
            side.put(entry, payload if cut < 0.6 else payload[: len(payload) // 2] if cut < 0.8 else None)
        for entry in log.entries:
            if entry.seq in held and not side.store.is_complete(entry) and self.rng.random() < 0.3:
                side.put(entry, log.payloads[entry.hash])

    def adjust(self, side: Side, request_id: int) -> None:
        """Change between lazy and eager, at a position or not."""
        connection = side.connection
        ours = connection.ours.requests[request_id]
        if ours.state in DEFERRED and self.rng.random() < 0.5:
            connection.ours.cancel(request_id)
            return
        seq = offset = None
        if ours.stream is not None and self.rng.random() < 0.7 and ours.stream.total:
            index = self.rng.randrange(min(ours.stream.total, 60))
            seq, is_payload = ours.stream.item(index)
            if is_payload:
                held = side.store.variants(ours.request.log, seq)
                offset = self.rng.randrange(held[0].entry.size + 1) if held else 0
        # A payload is only asked for by its position where its metadata is at hand.
        target = seq if seq is not None else ours.next_seq
        stream, index = ours.stream, ours.index
        is_next_payload = stream is not None and index < stream.total and stream.item(index).is_payload
        if offset is None and seq is None and is_next_payload and not side.store.variants(ours.request.log, target):
            seq = target
        if offset is not None and not side.store.variants(ours.request.log, target):
            offset = None
            if ours.stream is not None and ours.stream.index_of(target, is_payload=False) is None:
                return
        if (ours.lazy or ours.state in DEFERRED) and seq is None:
            return  # it may begin with a payload whose metadata was only announced
        connection.ours.adjust(request_id, seq, offset)

    def move(self) -> None:
        """Some bytes go some way."""
        name = self.rng.choice("ab")
        sender, receiver = (self.b, self.a) if name == "a" else (self.a, self.b)
        pipe = self.pipes[name]
        sender.connection.respond(self.rng.choice((1, 100, 10_000)))
        for event in sender.connection.take_events():
            sender.notice(event)
        pipe += sender.connection.data_to_send()
        size = self.rng.choice((1, 7, 100, 5000))
        receiver.take(bytes(pipe[:size]))
        del pipe[:size]

    def calm(self) -> None:
        """No more happens; everything arrives."""
        quiet = 0
        while quiet < 3:
            moved = False
            for name, sender, receiver in (("a", self.b, self.a), ("b", self.a, self.b)):
                sender.connection.respond(1 << 20)
                for event in sender.connection.take_events():
                    sender.notice(event)
                pipe = self.pipes[name]
                pipe += sender.connection.data_to_send()
                moved = moved or bool(pipe)
                receiver.take(bytes(pipe))
                pipe.clear()
            quiet = 0 if moved else quiet + 1

    def run(self) -> None:
        """The storm, the calm, and then each side asks for everything the other has."""
        for _ in range(self.rng.randrange(20, 150)):
            self.act()
            for _ in range(self.rng.randrange(4)):
                self.move()
        self.calm()
        if self.kept:
            key = self.followed.identity.public, self.followed.log_id
            held = [(1, self.published)] if self.published else []
            assert self.b.store.items(key) == (held, held)
            assert self.a.connection.theirs.entries_sent >= self.published
        for side in (self.a, self.b):
            for request_id in list(side.connection.ours.requests):
                if not side.connection.ours.requests[request_id].is_closing:
                    side.connection.ours.cancel(request_id)
        self.calm()
        assert not self.a.connection.ours.requests
        assert not self.b.connection.ours.requests
        assert not self.a.connection.theirs.requests
        assert not self.b.connection.theirs.requests
        assert self.a.connection.ours.credit == self.b.connection.limits.requests
        self.exchange_all()
        if self.is_forked:
            self.show_the_fork()

    def show_the_fork(self) -> None:
        """Whoever asks for the whole forked log gets the proof, if the other side has one."""
        log = branches()[0].entries[0].log
        for asker, holder in ((self.a, self.b), (self.b, self.a)):
            if known := [proof.position for proof in holder.store.proofs(log)]:
                self.ask_for(asker, log, Regular(At(1, 0), FromGreatest(0)))
                self.calm()
                assert min(proof.position for proof in asker.store.proofs(log)) <= min(known)

    def exchange_all(self) -> None:
        """Both sides ask for each other's items one by one: then both have all that one had."""
        for log in logs():
            key = (log.identity.public, log.log_id)
            for asker, holder in ((self.a, self.b), (self.b, self.a)):
                self.exchange(asker, holder, key)
            assert self.a.store.items(key) == self.b.store.items(key)
            for entry in log.entries:
                if self.a.store.is_complete(entry):
                    assert self.a.store.bytes[entry.hash] == log.payloads[entry.hash]

    def exchange(self, asker: Side, holder: Side, log: tuple[bytes, int]) -> None:
        """One side asks for all that it lacks of a log: first entries, then payloads."""
        theirs, ours = holder.store.held(log), asker.store.held(log)
        for seq in _numbers(theirs.entries):
            if seq not in ours.entries:
                self.ask_for(asker, log, MetadataOnly(seq, ascending=False, dist=0))
        self.calm()
        for seq in _numbers(theirs.payloads):
            if seq not in ours.payloads:
                self.ask_for(asker, log, Single(seq, 0, 0), payload_offset=0)
        self.calm()

    def ask_for(
        self, asker: Side, log: tuple[bytes, int], interval: Interval, payload_offset: int | None = None
    ) -> None:
        """Ask for something; first wait for credit."""
        if not asker.connection.ours.credit:
            self.calm()
        asker.connection.request(*log, interval, payload_offset=payload_offset)


def _numbers(runs: Runs) -> list[int]:
    return [seq for first, last in runs for seq in range(first, last + 1)]


@pytest.mark.slow
@pytest.mark.no_cover  # measuring would take four times as long
@pytest.mark.parametrize("first", range(FIRST, FIRST + SEEDS, BATCH))
def test_storms(first: int) -> None:
    """After any storm all requests are over, all credit is back, and both sides can get all that one of them has."""
    for seed in range(first, min(first + BATCH, FIRST + SEEDS)):
        try:
            Storm(seed).run()
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
