"""Payloads that come in pieces: several transfers at once, of right bytes and wrong ones, that break and go on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from culm.bamboo import yamf_hash
from culm.errors import NotHeld, PayloadMismatch, PayloadSizeMismatch
from culm.store import Overtaken, PayloadState
from tests.store.dictionary import Payload
from tests.store.machine_reading import Reading
from tests.store.machine_writing import Writing

if TYPE_CHECKING:
    from culm.bamboo import Entry
    from culm.store import SQLiteStore
    from culm.store.payloads.sink import PayloadSink

ENDS = ["keep", "close", "finish", "whole", "whole", "abandon", "die"]
UNFINISHED = (PayloadState.ABSENT, PayloadState.PARTIAL)


@dataclass
class Transfer:
    """A sink, and what it takes to be held.

    ``stored`` is what it found or left in the store, since when, ``taken`` all that it has, ``is_over``: it was told
    that another one changed what is held.
    """

    sink: PayloadSink
    store: SQLiteStore
    entry: Entry
    trusted: bool
    stored: bytes
    since: object
    taken: bytes
    is_over: bool = False


class Transfers(Writing, Reading):
    """The machine with everything."""

    def __init__(self) -> None:
        super().__init__()
        self.transfers: list[Transfer] = []

    def _held(self, entry: Entry) -> Payload:
        return self.model.of(entry.log).payloads[entry]

    # -- beginning ---------------------------------------------------------------------------------------------

    def begin_transfer(self, log: int) -> None:
        """Somebody begins to bring a payload, or goes on with it."""
        place, model = self.place(log), self.model.of(self.name(log))
        wanted = [entry for entry, held in model.payloads.items() if held.state in UNFINISHED and entry.size > 1]
        if wanted and self.rng.random() < 0.8:
            place = self.rng.choice(wanted).place
        entry = self.rng.choice(model.at(place.seq) or [None])
        chosen = entry.hash if entry and (entry != model.first_at(place.seq) or self.rng.random() < 0.5) else None
        store, trusted = self.store(), self.rng.random() < 0.5
        try:
            sink = store.payload_sink(place, chosen, trusted=trusted, durable=False)
        except NotHeld:
            assert entry is None
            return
        assert entry is not None
        held = self._held(entry)
        assert sink.wanted == (held.state in UNFINISHED)
        assert sink.offset == len(held.data)
        if sink.wanted:
            self.transfers.append(Transfer(sink, store, entry, trusted, held.data, held.since, held.data))

    # -- writing -----------------------------------------------------------------------------------------------

    def write(self, log: int) -> None:  # noqa: ARG002 - of any
        """Some bytes come, of the payload or others."""
        transfer = self.rng.choice(self.transfers)
        rest = self.payloads[transfer.entry][len(transfer.taken) :]
        size = self.rng.choice((self.rng.randint(0, 90), self.rng.randint(9, 30)))
        is_wrong = not transfer.trusted and self.rng.random() < 0.1
        self._write(transfer, bytes(size) if is_wrong else rest[:size])

    def _write(self, transfer: Transfer, piece: bytes) -> None:
        held, was_over = self._held(transfer.entry), transfer.is_over
        try:
            transfer.sink.write(piece)
        except PayloadMismatch:
            assert transfer.is_over or len(transfer.taken) + len(piece) > transfer.entry.size
            return
        except Overtaken:
            self._was_overtaken(transfer)
            return
        if not self._is_past(transfer):
            transfer.taken += piece
        else:  # all of it came another way, or it would have been told
            assert was_over or held.state is PayloadState.COMPLETE
        self._see_what_is_stored(transfer, held)

    def _is_past(self, transfer: Transfer) -> bool:
        """Whether a transfer found out, and said nothing, that another one changed what is held."""
        if transfer.sink._done and not transfer.is_over:
            self._was_overtaken(transfer)
        return transfer.is_over

    def _was_overtaken(self, transfer: Transfer) -> None:
        """Another one changed what is held."""
        held = self._held(transfer.entry)
        assert transfer.is_over or not self._fits(transfer) or self._was_replaced(transfer), held
        transfer.is_over = True

    def _see_what_is_stored(self, transfer: Transfer, before: Payload) -> None:
        """How much of what a transfer has is in the store is its own business: at least what was, in the same order."""
        stored = self.any_store().payload_sink(transfer.entry.place, transfer.entry.hash)
        if stored.offset != len(before.data):
            assert before.state in UNFINISHED
            assert before.data == transfer.stored
            assert len(before.data) < stored.offset <= len(transfer.taken)
            data = transfer.taken[: stored.offset]
            since = before.since if before.data else object()
            self.model.of(transfer.entry.log).payloads[transfer.entry] = Payload(PayloadState.PARTIAL, data, since)
            transfer.stored, transfer.since = data, since
            self.look_at.add(transfer.entry.log)

    def replace(self, log: int) -> None:  # noqa: ARG002 - of any
        """What a transfer has stored is dropped by another one, and as many bytes come from elsewhere."""
        stored = [transfer for transfer in self.transfers if transfer.stored and self._fits(transfer)]
        if not stored:
            return
        entry, count = stored[0].entry, len(stored[0].stored)
        data = self.payloads[entry][:count] if self.rng.random() < 0.5 else bytes(count)
        self.store().payload_sink(entry.place, entry.hash).abandon()
        other = self.store().payload_sink(entry.place, entry.hash)
        other.write(data)
        other.close()
        self._drop(entry)
        self.model.of(entry.log).payloads[entry] = Payload(PayloadState.PARTIAL, data)

    # -- ending ------------------------------------------------------------------------------------------------

    def end_transfer(self, log: int) -> None:  # noqa: ARG002 - of any
        """A transfer breaks, is given up, or comes to its end."""
        transfer, how = self.rng.choice(self.transfers), self.rng.choice(ENDS)
        payload = self.payloads[transfer.entry]
        if how == "whole":
            how = "finish"
            if payload.startswith(transfer.taken) and not transfer.is_over:
                self._write(transfer, payload[len(transfer.taken) :])
        self.look_at.add(transfer.entry.log)
        if how == "finish":
            self._finish(transfer)
        elif how == "abandon":
            transfer.sink.abandon()
            if not transfer.is_over and self._fits(transfer):
                self._drop_unless_replaced(transfer)
        elif how != "die":
            self._keep(transfer, closes=how == "close")
        if how != "keep":
            self.transfers.remove(transfer)

    def _fits(self, transfer: Transfer) -> bool:
        """Whether what is held is as a transfer left it."""
        held = self._held(transfer.entry)
        return held.state in UNFINISHED and held.data == transfer.stored

    def _was_replaced(self, transfer: Transfer) -> bool:
        """Whether the bytes were dropped and the same ones came again: a transfer may tell, or not."""
        return self._fits(transfer) and bool(transfer.stored) and self._held(transfer.entry).since != transfer.since

    def _drop_unless_replaced(self, transfer: Transfer) -> None:
        sink = self.any_store().payload_sink(transfer.entry.place, transfer.entry.hash)
        if sink.offset == 0 or not self._was_replaced(transfer):
            self._drop(transfer.entry)

    def _drop(self, entry: Entry) -> None:
        self.model.of(entry.log).payloads[entry] = Payload()
        self.touched.add(entry.log)

    def _keep(self, transfer: Transfer, *, closes: bool) -> None:
        held = self._held(transfer.entry)
        try:
            (transfer.sink.close if closes else transfer.sink.keep)()
        except Overtaken:
            assert not closes
            self._was_overtaken(transfer)
            return
        self._see_what_is_stored(transfer, held)
        if not self._is_past(transfer) and self._fits(transfer):
            assert transfer.stored == transfer.taken[: transfer.entry.size - 1]  # the last byte waits for the check

    def _finish(self, transfer: Transfer) -> None:
        entry = transfer.entry
        held, fits, was_replaced = self._held(entry), self._fits(transfer), self._was_replaced(transfer)
        if transfer.trusted and (transfer.taken != self.payloads[entry] or len(transfer.taken) != entry.size):
            transfer.sink.distrust()
            if not transfer.is_over:  # it looks at what is stored by now
                transfer.taken = held.data + transfer.taken[len(transfer.stored) :]
        is_right = yamf_hash(transfer.taken) == entry.payload_hash
        was_over = transfer.is_over
        try:
            transfer.sink.finish()
        except Overtaken:
            assert was_over or not fits or was_replaced
            assert held.state is not PayloadState.COMPLETE or was_over
        except PayloadSizeMismatch:
            assert not was_over
            assert is_right
            assert len(transfer.taken) != entry.size
            self.model.of(entry.log).payloads[entry] = Payload(PayloadState.SIZE_MISMATCH)
            self.touched.add(entry.log)
        except PayloadMismatch:
            assert not was_over
            assert not is_right
            if fits:
                self._drop_unless_replaced(transfer)
        else:
            if not was_over and fits:
                assert is_right
                self.model.of(entry.log).payloads[entry] = Payload(PayloadState.COMPLETE, transfer.taken)
                self.touched.add(entry.log)
            else:
                assert was_over or held.state is PayloadState.COMPLETE

    def open_again(self, log: int) -> None:
        """What was not stored of the transfers of a connection is lost with it."""
        self.transfers = [transfer for transfer in self.transfers if transfer.store is not self.stores[log % 2]]
        super().open_again(log)

    def teardown(self) -> None:
        """Break off what is under way."""
        for transfer in self.transfers:
            self._keep(transfer, closes=True)
        super().teardown()
