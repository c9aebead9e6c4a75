"""What is done to a store: adding in any order, proofs, publishing, forgetting, breaking off, opening again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from culm.bamboo import Entry, ForkProof, Identity, lipmaa, yamf_hash
from culm.errors import AfterEndOfLog, BadSignature, CulmError, ForkDetected, NotHeld, Place, StoreError, StoreFull
from culm.store import Draft, PayloadState
from culm.store.payloads.folder import Folder
from culm.store.payloads.pieces import sweep
from culm.testing import tampered
from tests.bamboo import oracle
from tests.store.asking import check_log
from tests.store.below import database_of
from tests.store.machine import Abort, StoreMachine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from culm.store import SQLiteStore
    from culm.types import Log
    from tests.store.dictionary import Item, LogModel


class Writing(StoreMachine):
    """A machine that writes, but for payloads that come in pieces. ``log`` numbers one of the world's logs."""

    def name(self, log: int) -> Log:
        """Author and id of a log."""
        return self.known[log % len(self.known)][0][0].log

    def place(self, log: int) -> Place:
        """A place in a log: mostly one of which something is held."""
        held = self.model.of(self.name(log)).entries()
        if held and self.rng.random() < 0.8:
            return self.rng.choice(held).place
        return Place(*self.name(log), self.rng.randint(1, 46))

    # -- adding ------------------------------------------------------------------------------------------------

    def add_part(self, log: int) -> None:
        """A part of a log comes, in order or not, with its payloads or without; it may break off."""
        kind = self.rng.choice(("whole", "bare", "mixed"))
        items = self.known[log % len(self.known)]
        items = items[self.rng.randrange(len(items)) :][: self.rng.randint(1, 30)]
        forged: set[Entry] = set()
        if kind == "bare":
            items = [(entry, None) for entry, _ in items]
        if kind == "mixed":
            items = [self._spoilt(item, forged) for item in items]
            self.rng.shuffle(items)
        self.add(items, forged, whole=self.rng.random() < 0.8)

    def _spoilt(self, item: Item, forged: set[Entry]) -> Item:
        entry, payload = item
        lot = self.rng.random()
        if lot < 0.05:
            bad = Entry.decode(tampered(entry))
            forged.add(bad)
            return bad, payload
        if lot < 0.15:
            return entry, self.rng.choice((b"", b"wrong", (payload or b"") + b"."))
        return entry, payload if lot < 0.7 else None

    def add_share(self, log: int) -> None:
        """A share of a log comes, entries of all branches among each other."""
        share = self.rng.choice((0.1, 0.5, 0.9, 1))
        items = [item for item in self.known[log % len(self.known)] if self.rng.random() < share]
        if self.rng.random() < 0.5:
            self.rng.shuffle(items)
        if items:
            self.add(items, set())

    def add_of_all_logs(self, log: int) -> None:  # noqa: ARG002 - of all
        """A group that has entries of all logs, some of them twice."""
        items = [item for items in self.known for item in items]
        forged: set[Entry] = set()
        self.add([self._spoilt(self.rng.choice(items), forged) for _ in range(self.rng.randint(1, 12))], forged)

    def add_proof(self, log: int) -> None:
        """A fork proof comes alone; one with a forged entry is none."""
        entries = [entry for entry, _ in self.known[log % len(self.known)]]
        if self.rng.random() < 0.2:
            self._add_forged_proof(entries[0])
            return
        pairs = [(self.rng.choice(entries), self.rng.choice(entries)) for _ in range(60)]
        proof = next((proof for pair in pairs if (proof := ForkProof.of(*pair)) is not None), None)
        if proof is None:
            return
        self.touched.add(proof.first.log)
        taken = self.model.add([(proof.first, None), (proof.second, None)])
        assert self.store().add_proof(proof).added == len(taken.added)

    def _add_forged_proof(self, entry: Entry) -> None:
        proof = ForkProof.of(entry, Entry.decode(tampered(entry)))
        assert proof is not None
        try:
            self.store().add_proof(proof)
        except BadSignature:
            return
        raise AssertionError("a forged proof was taken")

    # -- publishing --------------------------------------------------------------------------------------------

    def append(self, log: int) -> None:
        """The author publishes the next entry, if it can be sure which one that is."""
        is_end, breaks = self.rng.random() < 0.1, self.rng.random() < 0.1
        pieces = [self.rng.randbytes(self.rng.randint(0, 40)) for _ in range(self.rng.randint(0, 3))]
        first = self.known[log % len(self.known)][0][0]
        identity = next(one for one in map(_identity, (1, 2)) if one.public == first.author)
        model, store = self.model.of(first.log), self.store()
        refusal = _refusal(model)
        before = store.change()
        try:
            entry = store.append(identity, first.log_id, _given(pieces, breaks=breaks), is_end=is_end)
        except (Abort, ForkDetected, AfterEndOfLog, StoreError) as error:
            assert type(error) is (refusal or (Abort if breaks else None))  # noqa: PT017 - which one, is the question
            assert store.change() == before
            return
        assert refusal is None
        assert not breaks
        assert entry == _expected(identity, first.log_id, model, b"".join(pieces), is_end=is_end)
        assert entry in self.model.add([(entry, b"".join(pieces))]).added
        self.payloads[entry] = b"".join(pieces)
        self.known[log % len(self.known)].append((entry, b"".join(pieces)))
        self.touched.add(first.log)

    def append_in_a_row(self, log: int) -> None:
        """The author publishes entries of two logs, one transaction after the other, by one connection or both.

        What a transaction has left in memory is used by the next one, unless the other connection has written.
        """
        store = self.store()
        for _ in range(self.rng.randint(2, 4)):
            if self.rng.random() < 0.2:
                store = self.store()
            numbers = [log % len(self.known), self.rng.randrange(len(self.known))][: self.rng.randint(1, 2)]
            drafts = [self._draft(number) for number in numbers]
            for number, draft, made in zip(numbers, drafts, store.append_each(drafts), strict=True):
                refusal = _refusal(self.model.of(draft.log))
                self.touched.add(draft.log)  # Even if it is refused: its log counts as changed.
                if isinstance(made, CulmError):
                    assert type(made) is refusal
                    continue
                assert refusal is None
                for entry, payload in zip(made, draft.payloads, strict=True):
                    is_end = draft.is_end and entry is made[-1]
                    data, model = bytes(payload), self.model.of(draft.log)
                    assert entry == _expected(draft.identity, draft.log_id, model, data, is_end=is_end)
                    assert entry in self.model.add([(entry, data)]).added
                    self.payloads[entry] = data
                    self.known[number].append((entry, data))

    def _draft(self, number: int) -> Draft:
        first = self.known[number][0][0]
        identity = next(one for one in map(_identity, (1, 2)) if one.public == first.author)
        payloads = [self.rng.randbytes(self.rng.randint(0, 40)) for _ in range(self.rng.randint(1, 2))]
        return Draft(identity, first.log_id, payloads, self.rng.random() < 0.05)

    # -- forgetting --------------------------------------------------------------------------------------------

    def forget(self, log: int) -> None:
        """A payload is forgotten; of several entries of a number that of the one that came first."""
        place = self.place(log)
        entry = self.model.find(place)
        try:
            freed = self.store().forget(place)
        except NotHeld:
            assert entry is None
            return
        assert entry is not None
        assert freed == self.model.of(entry.log).forget(entry)
        self.touched.add(entry.log)

    def want_again(self, log: int) -> None:
        """What was forgotten is wanted again."""
        place = self.place(log)
        entry = self.model.find(place)
        try:
            was_forgotten = self.store().want_again(place)
        except NotHeld:
            assert entry is None
            return
        assert entry is not None
        model = self.model.of(entry.log)
        assert was_forgotten == (model.payloads[entry].state is PayloadState.FORGOTTEN)
        if was_forgotten:
            model.payloads[entry].state = PayloadState.ABSENT
        self.touched.add(entry.log)

    # -- breaking off ------------------------------------------------------------------------------------------

    def undo(self, log: int) -> None:
        """Whatever was done in a transaction that breaks off was not done."""
        store, items = self.store(), list(self.known[log % len(self.known)])
        before = store.change()
        try:
            with database_of(store).transaction():
                for _ in range(self.rng.randint(1, 3)):
                    self._anything(store, items)
                _break_off()
        except Abort:
            pass
        assert store.change() == before
        self.look_at.add(self.name(log))

    def _anything(self, store: SQLiteStore, items: list[Item]) -> None:
        if self.rng.random() < 0.6:
            store.add(self.rng.sample(items, self.rng.randint(1, min(12, len(items)))))
            return
        held = [entry for model in self.model for entry in model.payloads]
        if held:
            store.forget(self.rng.choice(held).place)

    def disk_is_full(self, log: int) -> None:
        """Where the disk has no room for a payload, the transaction is undone as a whole."""
        items = self.known[log % len(self.known)]
        items = items[self.rng.randrange(len(items)) :][:5]
        if len(self.batches(items)) != 1:
            return
        before, left, written = self.store().change(), [self.rng.randint(0, 2)], Folder.write

        def write(folder: Folder, name: str, offset: int, data: bytes) -> None:
            if not left[0]:
                raise StoreFull("no room")
            left[0] -= 1
            written(folder, name, offset, data)

        kept = self.model.copy()
        self.model.add(sorted(items, key=lambda item: item[0].seq))
        self.patch.setattr(Folder, "write", write)
        try:
            self.store().add(items)
        except StoreFull:
            self.model = kept
            assert self.store().change() == before
            self.look_at.add(self.name(log))
        else:
            self.touched.add(self.name(log))
        finally:
            self.patch.setattr(Folder, "write", written)

    def open_again(self, log: int) -> None:
        """A connection is closed and another one opened."""
        number = log % 2
        self.stores[number].close()
        self.stores[number] = self.opened()
        for name in self.model.logs:
            check_log(self.stores[number], self.model.of(name), self.rng)

    def sweep_up(self, log: int) -> None:  # noqa: ARG002 - of all
        """Files that nothing speaks of go, and no others."""
        store = self.store()
        sweep(database_of(store))
        ((files,),) = database_of(store).read("SELECT count(*) FROM payload_files")
        assert len(database_of(store).folder.names()) == files


def _identity(seed: int) -> Identity:
    return Identity(seed.to_bytes(32, "big"))


def _break_off() -> None:
    raise Abort


def _given(pieces: list[bytes], *, breaks: bool) -> Iterator[bytes]:
    yield from pieces
    if breaks:
        raise Abort


def _refusal(model: LogModel) -> type[Exception] | None:
    """Why nothing may be appended; None if it may."""
    if model.forked_at is not None:
        return ForkDetected
    if any(entry.is_end for entry in model.payloads):
        return AfterEndOfLog
    if model.greatest > model.newest:
        return StoreError
    target = oracle.lipmaa(model.newest + 1)
    return StoreError if target and not model.at(target) else None


def _expected(identity: Identity, log_id: int, model: LogModel, payload: bytes, *, is_end: bool) -> Entry:
    """The next entry of a log."""
    seq = model.newest + 1
    backlink, lipmaalink = (model.at(at)[0].hash if at else None for at in (seq - 1, lipmaa(seq)))
    return identity.create_entry(
        log_id=log_id,
        seq=seq,
        backlink=backlink,
        lipmaalink=lipmaalink,
        size=len(payload),
        payload_hash=yamf_hash(payload),
        is_end=is_end,
    )
