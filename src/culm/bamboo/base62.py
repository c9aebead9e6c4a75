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
_VALUES = {char: value for value, char in enumerate(_ALPHABET)}
_BASE = len(_ALPHABET)
_GROUP = 11  # Digits that fit into 64 bits: few steps have to divide or multiply a number of 256 bits.
_GROUP_BASE = _BASE**_GROUP


def encode_base62(key: bytes) -> bytes:
    """The 43 characters, as ASCII bytes, of a 32-byte key; ``ValueError`` for other lengths."""
    if len(key) != KEY_BYTES:
        raise ValueError(f"an identity is {KEY_BYTES} bytes, not {len(key)}")
    number = int.from_bytes(key, "big")
    digits = bytearray()
    while len(digits) < BASE62_CHARS:
        number, group = divmod(number, _GROUP_BASE)
        for _ in range(_GROUP):
            group, digit = divmod(group, _BASE)
            digits.append(_ALPHABET[digit])
    return bytes(digits[BASE62_CHARS - 1 :: -1])  # The last group has a digit more, which is always 0.


def decode_base62(text: bytes) -> bytes:
    """The 32-byte key that 43 ASCII characters stand for; ``EncodingError`` with the offset for anything else."""
    if len(text) != BASE62_CHARS:
        raise EncodingError(f"an identity has {BASE62_CHARS} base62 characters, not {len(text)}", 0)
    number = 0
    try:
        for end in range(BASE62_CHARS % _GROUP, BASE62_CHARS + 1, _GROUP):
            group = 0
            for char in text[max(end - _GROUP, 0) : end]:
                group = group * _BASE + _VALUES[char]
            number = number * _GROUP_BASE + group
    except KeyError:
        at = next(at for at, char in enumerate(text) if char not in _VALUES)
        raise EncodingError(f"byte {text[at]:#04x} is not a base62 character", at) from None
    try:
        return number.to_bytes(KEY_BYTES, "big")
    except OverflowError:
        raise EncodingError("the base62 number is too large for 32 bytes", 0) from None
