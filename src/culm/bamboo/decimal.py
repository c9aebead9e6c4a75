"""Numbers as people type and read them: decimal digits, up to 2^64 - 1, and sizes with a unit.

Python's ``int`` is too generous for input from outside. It accepts signs, spaces, underscores and digits of other
scripts, and raises ``ValueError`` for more than 4,300 digits. Here such a text is simply not a number.
"""

from culm.bamboo.varu64 import MAX_U64

_MOST_DIGITS = len(str(MAX_U64))
_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB")


def read_u64(text: str) -> int | None:
    """The number that ASCII digits write, leading zeros allowed; None for any other text or above 2^64 - 1."""
    if not (text.isascii() and text.isdigit()):
        return None
    digits = text.lstrip("0")
    if len(digits) > _MOST_DIGITS:
        return None
    number = int(digits or "0")
    return number if number <= MAX_U64 else None


def size_text(size: int) -> str:
    """A number of bytes with a unit: ``1023 B``, ``1.5 KiB``. Exact to the digit shown, however large it is.

    The sums of sizes that authors only claim exceed what a float can hold exactly. So integers are divided, which
    Python rounds only once.
    """
    if size < 1024:
        return f"{size} B"
    power = min((size.bit_length() - 1) // 10, len(_UNITS))
    return f"{size / 1024**power:,.1f} {_UNITS[power - 1]}"
