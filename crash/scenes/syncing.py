"""Scenes about peers: one-time syncs in every protocol, single entries fetched, a node."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from crash.invariants import read
from crash.material import copy_home, new_home
from crash.peers import CLUMP
from crash.promises import MOVES, Promises
from crash.scenes.base import Scene, expect, last_json
from culm.store.schema import PayloadState, State
from culm.wire.places import log_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from crash.invariants import Contents
    from crash.victims import Call, Fate


class _Sync(Scene):
    """``culm sync``: what came stays, the next sync goes on, and one that has ended has brought everything."""

    scheme: ClassVar[str]
    names_logs: ClassVar[bool] = False

    def prepare(self) -> None:
        """A home with a log of its own, that the peer has not."""
        new_home(self.home, self.identity)
        with self.home.store() as store:
            store.append(self.identity, 5, [b"mine"])
        self._wanted = [self.material.readings, self.material.letters, self.material.films]
        self._done = False

    def call(self) -> Call | None:
        """Sync with the peer."""
        if self._done:
            return None
        logs = [log_text(log.entries[0].log) for log in self._wanted] if self.names_logs else []
        return self.culm(self.name, "--json", "sync", self.peers.url(self.scheme), *logs, "--clump", CLUMP)

    def ended(self, call: Call, fate: Fate) -> None:
        """The summary is a promise."""
        expect(call, fate, 0, 1)  # a fork may come to light
        found = last_json(fate)
        self._done = found is not None and found["type"] == "summary"
        if self._done and found is not None and found["refused"]:
            raise AssertionError(f"refused: {found['refused']}")

    def check(self, contents: dict[Path, Contents]) -> list[str]:
        """If it said that it is done, all is there."""
        if not self._done:
            return []
        (held,) = contents.values()
        lacking = 0
        for log in self._wanted:
            there = held.of_log(log.entries[0].log)
            lacking += sum(
                (item := there.get(entry.seq)) is None
                or (item.state, item.payload_state) != (State.VERIFIED, PayloadState.COMPLETE)
                for entry in log.entries
            )
        return [f"{lacking} entries are not there although the sync was done"] if lacking else []


class SyncCulm(_Sync):
    """By ``culm://``."""

    name = "sync culm"
    scheme = "culm"


class SyncBushbaby(_Sync):
    """By ``bushbaby://``."""

    name = "sync bushbaby"
    scheme = "bushbaby"


class SyncIntervals(_Sync):
    """By ``intervals://``."""

    name = "sync intervals"
    scheme = "intervals"
    names_logs = True


class SyncProposals(_Sync):
    """By ``proposals://``."""

    name = "sync proposals"
    scheme = "proposals"
    names_logs = True


class Fetch(Scene):
    """``culm fetch`` of payloads that were forgotten."""

    name = "fetch"
    moves = frozenset(
        (PayloadState.FORGOTTEN, state) for state in (PayloadState.ABSENT, PayloadState.PARTIAL, PayloadState.COMPLETE)
    )

    def prepare(self) -> None:
        """All logs, most large payloads forgotten."""
        copy_home(self.material.source, self.home.path)
        with self.home.store() as store:
            for entry in self.material.films.entries:
                store.forget(entry.place)
        self._done = False

    def call(self) -> Call | None:
        """Get them back."""
        if self._done:
            return None
        last = self.material.films.entries[-1]
        return self.culm("fetch", "--json", "fetch", self.peers.url("intervals"), f"{log_text(last.log)}/1..{last.seq}")

    def ended(self, call: Call, fate: Fate) -> None:
        """The summary is a promise."""
        expect(call, fate, 0)
        found = last_json(fate)
        self._done = found is not None and found["type"] == "summary"

    def check(self, contents: dict[Path, Contents]) -> list[str]:
        """If it said that it is done, all is there."""
        (held,) = contents.values()
        there = held.of_log(self.material.films.entries[0].log).values()
        lacking = sum(item.payload_state is not PayloadState.COMPLETE for item in there)
        return [f"{lacking} payloads are not there although they were fetched"] if self._done and lacking else []


class Serve(Scene):
    """``culm serve``, fetching from a peer, while another program publishes in the same home.

    Now and then both are killed. What the other program said is done, whatever becomes of the node; and whatever of it
    the peer has, the home has.
    """

    name = "serve"
    moves = MOVES

    def prepare(self) -> None:
        """An identity of its own: the peer is going to have its logs."""
        new_home(self.home, self.identity)
        self._promises = Promises()
        self._scheme = self.rng.choice(("culm", "bushbaby"))

    def call(self) -> Call:
        """The node, with the peer in one protocol or the other."""
        url = self.peers.url(self._scheme)
        return self.culm(
            "serve", "serve", "--clump", CLUMP, "--listen", "culm://127.0.0.1:0", "--peer", url,
            ready="listening", endless=600,
        )  # fmt: skip

    def beside(self) -> Sequence[Call]:
        """The program that publishes."""
        seed = self.rng.getrandbits(32)
        return (self.module("writer", "crash.writer", self.home.path, seed, "--times", 40, ready="writing"),)

    def kills_beside(self) -> bool:
        """Both, or the node alone."""
        return self.rng.random() < 0.5

    def ended(self, call: Call, fate: Fate) -> None:
        """A node ends only when it is killed."""
        expect(call, fate)

    def beside_ended(self, call: Call, fate: Fate) -> None:
        """Each line is a promise."""
        expect(call, fate, 0)
        self._promises.take(fate.lines)

    def check(self, contents: dict[Path, Contents]) -> list[str]:
        """What was published is there, and the peer has nothing of it that is not."""
        (held,) = contents.values()
        found = self._promises.broken(held)
        own = {key for key in read(self.peers.home.store_path).entries if key[0][0] == self.identity.public}
        if ahead := own - set(held.entries):
            found.append(f"the peer has {len(ahead)} entries of this home that the home has not")
        return found
