"""What happens during a soak: one thing every few seconds, chosen at random."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

from culm.store import PayloadState, SQLiteStore
from culm.wire.places import author_text, log_text, place_text
from soak.holdings import holdings
from soak.nodes import CLUMP, run

if TYPE_CHECKING:
    import random
    from pathlib import Path

    from culm.errors import Place
    from soak.nodes import SoakNode

LOGS = (1, 2)  # of each node's author
_LARGE = (300_000, 5_000_000)
_SMALL = (0, 3_000)
_BURST = 25
_PIECE = 64 * 1024


class Course:
    """Chooses and does. ``lasting`` is never ended; the others live ``life`` seconds at a time, about."""

    def __init__(self, nodes: list[SoakNode], folder: Path, rng: random.Random, life: float) -> None:
        self.done: Counter[str] = Counter()
        self.promised: dict[Place, bytes] = {}  # what was published, and its hash
        self._nodes = nodes
        self._folder = folder
        self._rng = rng
        self._life = life
        self._kept: dict[Place, str] = {}  # payloads that a node must not forget: others may have
        self._follows: set[str] = set()
        now = time.monotonic()
        self._end_at = {node.name: now + self._lifetime() for node in nodes[1:]}

    def _lifetime(self) -> float:
        return self._life * self._rng.uniform(0.8, 1.2)

    def step(self) -> None:
        """One thing more."""
        now = time.monotonic()
        for node in self._nodes[1:]:
            if now >= self._end_at[node.name]:
                self._restart(node)
                self._end_at[node.name] = time.monotonic() + self._lifetime()
                return
        works = (self._append, self._append, self._append_large, self._burst, self._forget, self._follow, self._compare)
        self._rng.choice(works)()

    # -- nodes -------------------------------------------------------------------------------------------------

    def _restart(self, node: SoakNode) -> None:
        if self._rng.random() < 0.25:
            node.kill()
            self.done["killed"] += 1
        else:
            node.stop()
            self.done["stopped"] += 1
        if self._rng.random() < 0.5:  # it misses something
            self._burst()
            self._append_large()
        node.start()

    # -- publishing --------------------------------------------------------------------------------------------

    def _promise(self, place: Place, digest: bytes) -> None:
        self.promised[place] = digest

    def _append(self) -> None:
        node, log_id = self._rng.choice(self._nodes), self._rng.choice(LOGS)
        file = self._folder / "payload"
        file.write_bytes(self._rng.randbytes(self._rng.randint(*_SMALL)))
        self._append_file(node, log_id, file)
        self.done["appended"] += 1

    def _append_large(self) -> None:
        node, log_id = self._rng.choice(self._nodes), self._rng.choice(LOGS)
        file = self._folder / "payload"
        file.write_bytes(self._rng.randbytes(self._rng.randint(*_LARGE)))
        self._append_file(node, log_id, file)
        self.done["appended, large"] += 1

    def _append_file(self, node: SoakNode, log_id: int, file: Path) -> None:
        printed = run(node.home, "append", log_id, file).strip()
        seq = int(printed.rpartition("/")[2])
        with node.home.store(read_only=True) as store:
            stored = next(store.entries((node.identity.public, log_id), seq, seq))
            self._promise(stored.entry.place, stored.entry.hash)

    def _burst(self) -> None:
        """Another program, with the library, publishes many at once."""
        node = self._rng.choice(self._nodes)
        with SQLiteStore(node.home.store_path) as store:
            for _ in range(_BURST):
                payload = self._rng.randbytes(self._rng.randint(*_SMALL))
                entry = store.append(node.identity, self._rng.choice(LOGS), [payload])
                self._promise(entry.place, entry.hash)
        self.done["appended"] += _BURST

    # -- choosing ----------------------------------------------------------------------------------------------

    def _forget(self) -> None:
        """A node forgets a payload that another one has, and goes on having."""
        node, keeper = self._rng.sample(self._nodes, 2)
        of_node, of_keeper = holdings(node.home.store_path), holdings(keeper.home.store_path)
        found = [
            place
            for place, held in of_node.items()
            if held.size
            and held.payload is PayloadState.COMPLETE
            and self._kept.get(place) != node.name
            and (other := of_keeper.get(place)) is not None
            and other.payload is PayloadState.COMPLETE
        ]
        found.sort(key=lambda place: -of_node[place].size)
        if found:
            place = self._rng.choice(found[:10])  # mostly large ones, so that disks do not fill
            run(node.home, "forget", place_text(place))
            self._kept.setdefault(place, keeper.name)
            self.done["forgotten"] += 1

    def _follow(self) -> None:
        """The last node asks for less, or for everything again; ``follow`` is taken up by the node as it runs."""
        node = self._nodes[-1]
        if self._follows and self._rng.random() < 0.5:
            self.follow_everything()
            return
        author = self._rng.choice(self._nodes[:-1]).identity.public
        what = self._rng.choice([author_text(author), log_text((author, self._rng.choice(LOGS)))])
        if what in self._follows:
            run(node.home, "unfollow", what, "--clump", CLUMP)
            self._follows.discard(what)
        else:
            limit = ["--max-payload", "100kB"] if self._rng.random() < 0.5 else []
            run(node.home, "follow", what, "--clump", CLUMP, *limit)
            self._follows.add(what)
        self.done["follows"] += 1

    def follow_everything(self) -> None:
        """The last node asks for everything again."""
        run(self._nodes[-1].home, "unfollow", "--all", "--clump", CLUMP)
        self._follows.clear()
        self.done["follows"] += 1

    def _compare(self) -> None:
        """Somebody compares two nodes by negentropy."""
        one, other = self._rng.sample([node for node in self._nodes if node.runs], 2)
        run(one.home, "reconcile", one.home.path, other.url("negentropy").replace("negentropy", "tcp"), "--json")
        self.done["compared"] += 1
