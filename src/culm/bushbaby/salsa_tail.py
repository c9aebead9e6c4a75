"""The deployed peer's Salsa20 beyond block 255 (docs/specs/bushbaby.md, "Nonce boxes").

A box is Salsa20 keystream XORed over its bytes, in blocks of 64. The specification of Salsa20 numbers the blocks by a
64-bit little-endian counter. The deployed peer writes the counter as the shortest *big-endian* integer and pads it with
zeros on the right: the same bytes up to block 255, others from block 256 on, where the counter's bytes become
``01 00 00 ...``. Read as usual, that is block 1. So all of its keystream is ordinary keystream, at other block numbers:
``block_numbers`` says which.

Note what this costs: block 256 has the keystream of block 1, block 512 that of block 2, and so on. An eavesdropper who
sees one such box learns the XOR of parts of its plaintext. That is why Culm keeps boxes short towards the deployed peer
and uses the standard counter among its own.

This is the only cipher code in Culm: libsodium's wrapper offers no way to set the counter. It makes many blocks at once
with numpy, is tested against libsodium where the two counters agree, and against the deployed peer's boxes beyond.
"""

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint32]

BLOCK_BYTES = 64
FIRST_ODD_BLOCK = 256
_CHUNK_BLOCKS = 2048  # 128 KiB of keystream at a time: small enough for a processor's cache
_DOUBLE_ROUNDS = 10
_SIGMA = np.frombuffer(b"expand 32-byte k", "<u4")
# The 4x4 state is kept by diagonals, so that a vector operation serves four quarter-rounds:
# row r holds the words that are the r-th arguments of the four quarter-rounds on columns.
_DIAGONALS = np.array([[0, 5, 10, 15], [4, 9, 14, 3], [8, 13, 2, 7], [12, 1, 6, 11]])
_POSITIONS = np.argsort(_DIAGONALS.ravel())  # from there back to the order of the words
# (argument that changes, the two that are added, left rotation): one quarter-round.
_QUARTER_ROUND = ((1, 0, 3, 7), (2, 1, 0, 9), (3, 2, 1, 13), (0, 3, 2, 18))


def block_numbers(first: int, count: int) -> npt.NDArray[np.uint64]:
    """The standard numbers of the keystream blocks that the deployed peer uses as ``first``, ``first + 1``, ..."""
    numbers = np.arange(first, first + count, dtype=np.uint64)
    shift = np.full(count, 56, dtype=np.uint64)
    for width in range(1, 8):
        shift[numbers >= np.uint64(1 << 8 * width)] = 56 - 8 * width
    return (numbers << shift).byteswap()  # the bytes to the left end, then read in the other direction


def keystream(key: bytes, nonce: bytes, numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint8]:
    """XSalsa20 keystream: the blocks of the given standard numbers, one after the other.

    ``key`` has 32 bytes and ``nonce`` 24, as for a secretbox.
    """
    subkey, rest = _subkey(key, nonce), np.frombuffer(nonce[16:], "<u4")
    state = _state(subkey, rest, len(numbers))
    state[8] = numbers.astype(np.uint32)  # keeps the lower half
    state[9] = (numbers >> np.uint64(32)).astype(np.uint32)
    mixed = _mix(state)
    mixed += state
    return np.ascontiguousarray(mixed.T, dtype="<u4").view(np.uint8).ravel()


def xor_tail(data: memoryview, key: bytes, nonce: bytes, first: int = FIRST_ODD_BLOCK) -> None:
    """XOR ``data``, which begins at block ``first``, with the deployed peer's keystream, in place.

    Doing it twice changes nothing. Takes bounded memory besides ``data``.
    """
    target = np.frombuffer(data, np.uint8)
    for at in range(0, len(target), _CHUNK_BLOCKS * BLOCK_BYTES):
        part = target[at : at + _CHUNK_BLOCKS * BLOCK_BYTES]
        blocks = -(-len(part) // BLOCK_BYTES)
        part ^= keystream(key, nonce, block_numbers(first + at // BLOCK_BYTES, blocks))[: len(part)]


def _subkey(key: bytes, nonce: bytes) -> Words:
    """HSalsa20: the key of Salsa20 that belongs to the first 16 bytes of a 24-byte nonce."""
    mixed = _mix(_state(np.frombuffer(key, "<u4"), np.frombuffer(nonce[:16], "<u4"), 1))
    return mixed[[0, 5, 10, 15, 6, 7, 8, 9], 0]


def _state(key: Words, four: Words, count: int) -> Words:
    """``count`` initial states as columns of 16 words; ``four`` are nonce words, the last ones a counter's place."""
    words = np.zeros(16, dtype=np.uint32)
    words[[0, 5, 10, 15]] = _SIGMA
    words[1:5], words[11:15] = key[:4], key[4:]
    words[6 : 6 + len(four)] = four
    return np.repeat(words[:, np.newaxis], count, axis=1)


def _mix(state: Words) -> Words:
    """The 20 rounds over all columns, without the addition of the initial state at the end."""
    rows = list(state[_DIAGONALS])  # four arrays of four words by count
    total, turned = np.empty_like(rows[0]), np.empty_like(rows[0])
    for _ in range(2 * _DOUBLE_ROUNDS):
        for changed, one, other, rotation in _QUARTER_ROUND:
            np.add(rows[one], rows[other], out=total)
            np.left_shift(total, rotation, out=turned)
            np.right_shift(total, 32 - rotation, out=total)
            rows[changed] ^= turned
            rows[changed] ^= total
        # From columns to rows, and back again: the diagonals change places and turn.
        rows = [rows[0], rows[3][[1, 2, 3, 0]], rows[2][[2, 3, 0, 1]], rows[1][[3, 0, 1, 2]]]
    return np.concatenate(rows)[_POSITIONS]
