"""Identities: Ed25519 key pairs, and signing new entries with them (docs/specs/bamboo.md, "Entries").

The secret is the 32-byte seed that libsodium expands. How identities are kept in files is in
``culm.bamboo.keyfile``.
"""

from collections.abc import Callable, Sequence
from typing import Self

from nacl.bindings import crypto_sign, crypto_sign_seed_keypair, randombytes

from culm.bamboo.entry import SIGNATURE_BYTES, Entry, encode_unsigned
from culm.bamboo.lipmaa import has_lipmaalink, lipmaa
from culm.bamboo.varu64 import encode_varu64
from culm.bamboo.yamf import yamf_hash

SEED_BYTES = 32
# The deployed Bushbaby peer crashes on a long-term key that begins with "~" (docs/specs/bushbaby.md, "Handshake").
# Other programs can still make such a key, and it is accepted; new identities avoid it, because they could not talk to
# that peer.
_AVOIDED_FIRST_BYTE = 0x7E


class Identity:
    """An author's key pair. ``public`` is the author as it stands in entries (32 bytes)."""

    __slots__ = ("_secret", "public")

    def __init__(self, seed: bytes) -> None:
        if len(seed) != SEED_BYTES:
            raise ValueError(f"the secret of an identity is {SEED_BYTES} bytes, not {len(seed)}")
        self.public: bytes
        self.public, self._secret = crypto_sign_seed_keypair(seed)  # The second is the seed with ``public`` behind it.

    @classmethod
    def create(cls) -> Self:
        """A new identity from the system's randomness."""
        while True:
            identity = cls(randombytes(SEED_BYTES))
            if identity.public[0] != _AVOIDED_FIRST_BYTE:
                return identity

    @property
    def seed(self) -> bytes:
        """The secret (32 bytes). Everyone who knows it can publish in this author's name."""
        return self._secret[:SEED_BYTES]

    def sign(self, message: bytes) -> bytes:
        """The detached signature (64 bytes) of ``message``."""
        return crypto_sign(message, self._secret)[:SIGNATURE_BYTES]

    def create_entry(
        self,
        *,
        log_id: int,
        seq: int,
        backlink: bytes | None,
        lipmaalink: bytes | None,
        size: int,
        payload_hash: bytes,
        is_end: bool = False,
    ) -> Entry:
        """Sign entry ``seq`` of this author's log.

        ``backlink`` and ``lipmaalink`` are the hashes of entries ``seq - 1`` and ``lipmaa(seq)``, None for entry 1;
        a lipmaalink that the format leaves out may be given and is dropped. ``ValueError`` for a missing link.

        Signing a second entry with a number used before forks the log for ever: ``culm.store`` appends safely.
        """
        jump = lipmaalink if has_lipmaalink(seq) else None
        unsigned = encode_unsigned(
            is_end=is_end,
            author=self.public,
            log_id=log_id,
            seq=seq,
            lipmaalink=jump,
            backlink=backlink,
            size=size,
            payload_hash=payload_hash,
        )
        # Not decoded again: the fields were checked, and decoding takes a tenth of what `append_many` takes.
        return Entry(unsigned + self.sign(unsigned), self.public, log_id, seq, jump, backlink, size)

    def create_run(
        self,
        log_id: int,
        begin: int,
        payloads: Sequence[bytes | bytearray | memoryview],
        hash_at: Callable[[int], bytes | None],
        *,
        ends: bool = False,
    ) -> list[Entry]:
        """Sign the entries of this author's log from number ``begin`` on, one for each payload.

        ``hash_at`` gives the hashes of entries before ``begin``, None for number 0. ``ends``: the last one ends the
        log. The entries are those that ``create_entry`` makes one by one, and so is the warning. It costs less, because
        nearly all links go to entries made here, which need no check.
        """
        start, public, key = self.public + encode_varu64(log_id), self.public, self._secret
        hashes: list[bytes] = []
        entries = []
        back, last = hash_at(begin - 1), begin + len(payloads) - 1
        for seq, payload in enumerate(payloads, begin):
            jump, target = None, lipmaa(seq)
            if target < seq - 1:
                jump = hashes[target - begin] if target >= begin else hash_at(target)
            is_end = ends and seq == last
            payload_hash, size = yamf_hash(payload), len(payload)
            head = b"\x01" if is_end else b"\x00", start, encode_varu64(seq), jump or b"", back or b""
            unsigned = b"".join((*head, encode_varu64(size), payload_hash))
            encoded = unsigned + crypto_sign(unsigned, key)[:SIGNATURE_BYTES]
            hashed = yamf_hash(encoded)
            entries.append(Entry(encoded, public, log_id, seq, jump, back, size, hashed))
            hashes.append(hashed)
            back = hashed
        return entries

    def __repr__(self) -> str:
        return f"Identity({self.public.hex()})"
