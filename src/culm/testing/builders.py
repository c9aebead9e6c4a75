"""Building logs for tests, benchmarks and examples: honest ones, forked ones, and damaged ones.

Entries are really signed, so that everything that checks them can be tested. ``LogBuilder`` keeps all entries of a log,
so that any of them can be made a second time with other content: that is a fork.
"""

from collections.abc import Iterable

from culm.bamboo import Entry, Identity, lipmaa, yamf_hash
from culm.types import Buffer


class LogBuilder:
    """Builds one log in memory, entry by entry. ``payloads`` has the payload of each entry made, by its hash."""

    def __init__(self, identity: Identity, log_id: int = 0) -> None:
        self.identity = identity
        self.log_id = log_id
        self.entries: list[Entry] = []
        self.payloads: dict[bytes, bytes] = {}

    def append(self, payload: bytes, *, is_end: bool = False) -> Entry:
        """Sign the next entry and add it to the log."""
        entry = self.make(len(self.entries) + 1, payload, is_end=is_end)
        self.entries.append(entry)
        return entry

    def make(
        self,
        seq: int,
        payload: bytes,
        *,
        is_end: bool = False,
        backlink: bytes | None = None,
        lipmaalink: bytes | None = None,
        size: int | None = None,
    ) -> Entry:
        """Sign an entry ``seq`` without adding it to the log; a fork if the log has one of that number.

        Without ``backlink`` and ``lipmaalink``, it links to the log's own entries. ``size``: the size in the entry, if
        it is not to be that of the payload.
        """
        entry = self.identity.create_entry(
            log_id=self.log_id,
            seq=seq,
            backlink=backlink or self._hash_at(seq - 1),
            lipmaalink=lipmaalink or self._hash_at(lipmaa(seq)),
            size=len(payload) if size is None else size,
            payload_hash=yamf_hash(payload),
            is_end=is_end,
        )
        self.payloads[entry.hash] = payload
        return entry

    def _hash_at(self, seq: int) -> bytes | None:
        return self.entries[seq - 1].hash if seq else None

    def items(self, entries: Iterable[Entry] | None = None) -> list[tuple[Entry, Buffer | None]]:
        """Entries with their payloads, as ``Store.add`` takes them; by default all of the log."""
        return [(entry, self.payloads[entry.hash]) for entry in (self.entries if entries is None else entries)]


def build_log(length: int, *, seed: int = 1, log_id: int = 0, payload_size: int = 20) -> LogBuilder:
    """A log of ``length`` entries; its author and payloads follow from ``seed``, so that it is the same every time."""
    builder = LogBuilder(Identity(seed.to_bytes(32, "big")), log_id)
    for seq in range(1, length + 1):
        builder.append(f"{seed}/{log_id}/{seq} ".encode().ljust(payload_size, b".")[:payload_size])
    return builder


def tampered(entry: Entry, at: int = -1) -> bytes:
    """The entry's bytes with one bit flipped at index ``at`` (default: in the signature)."""
    data = bytearray(entry.encoded)
    data[at] ^= 1
    return bytes(data)
