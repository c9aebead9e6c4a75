"""Base62: 32-byte keys as 43 letters and digits (docs/specs/bushbaby.md, "Base62").

The key is read as one big-endian number and written with the digits ``0-9A-Za-z``, the most significant first,
always 43 of them. So every key has exactly one form, and everything else is refused: other lengths, other characters,
numbers of 2^256 and above. That is why there is code here and no package from an index: those drop leading zeros, or
order the alphabet differently.
"""

from culm.errors import EncodingError

BASE62_CHARS = 43  # the fewest characters for 256 bits: 62^42 < 2^256 < 62^43
KEY_BYTES = 32
_ALPHABET = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_BASE = len(_ALPHABET)
# Two digits at a time, because each step divides a 256-bit number, which is what takes the time.
_PAIRS = [bytes((high, low)) for high in _ALPHABET for low in _ALPHABET]
_PAIR_VALUES = {pair: value for value, pair in enumerate(_PAIRS)}
_PAIR_BASE = _BASE * _BASE


def encode_base62(key: bytes) -> bytes:
    """The 43 characters, as ASCII bytes, of a 32-byte key; ``ValueError`` for other lengths."""
    if len(key) != KEY_BYTES:
        raise ValueError(f"an identity is {KEY_BYTES} bytes, not {len(key)}")
    number = int.from_bytes(key, "big")
    pairs = []
    for _ in range(BASE62_CHARS // 2):
        number, pair = divmod(number, _PAIR_BASE)
        pairs.append(_PAIRS[pair])
    pairs.append(_ALPHABET[number : number + 1])
    return b"".join(reversed(pairs))


def decode_base62(text: bytes) -> bytes:
    """The 32-byte key that 43 ASCII characters stand for; ``EncodingError`` with the offset for anything else."""
    if len(text) != BASE62_CHARS:
        raise EncodingError(f"an identity has {BASE62_CHARS} base62 characters, not {len(text)}", 0)
    number = _ALPHABET.find(text[:1])
    try:
        for at in range(1, BASE62_CHARS, 2):
            number = number * _PAIR_BASE + _PAIR_VALUES[text[at : at + 2]]
    except KeyError:
        number = -1
    if number < 0:
        at = next(at for at, char in enumerate(text) if char not in _ALPHABET)
        raise EncodingError(f"byte {text[at]:#04x} is not a base62 character", at)
    try:
        return number.to_bytes(KEY_BYTES, "big")
    except OverflowError:
        raise EncodingError("the base62 number is too large for 32 bytes", 0) from None
