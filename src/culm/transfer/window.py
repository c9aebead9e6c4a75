"""How many bytes a peer may have under way to us.

Whatever is under way is in front of the news that come up. A large payload alone is fastest with much under way, and
news beside one are soonest with little. So the window is short when news have come in the middle of a payload, and
grows with the bytes of payloads that come without any.
"""

_SHORT = 256 * 1024  # While news come beside a payload: enough that parsing and storing overlap.
_CALM_TIMES = 8  # So many bytes of payloads in a row come without such news for each byte of the window.
_FIRST_CALM = 8 * 1024 * 1024  # As if so many had come before the first.
_PARTS = 5  # A window is granted in so many parts, or fewer.
_NEWS = 32 * 1024  # Fewer, in the middle of another payload, are news.


class Window:
    """The window of one connection: at most ``most`` bytes.

    It is told what comes. Bytes have owners, which are requests or proposals, and owners have turns.
    """

    __slots__ = ("_calm", "_most", "_owner", "_turn")

    def __init__(self, most: int) -> None:
        self._most = most
        self._calm = _FIRST_CALM
        self._owner: int | None = None  # Whose payload has begun and goes on.
        self._turn = 0  # Bytes of the present turn.

    @property
    def full(self) -> int:
        """How many bytes may be under way now."""
        return min(self._most, max(_SHORT, self._calm // _CALM_TIMES))

    def grant(self, left: int) -> int:
        """Credit for a peer that has ``left`` so many bytes of it, as far as it is time.

        Small grants cost bytes and wake-ups. With large ones the peer stands still while they are on the way.
        """
        amount = self.full - left
        return amount if amount * _PARTS >= self.full else 0

    def begin_turn(self, *, in_payload: bool) -> None:
        """What comes next is of one owner, and goes on with a payload of its or not: the rest of one is no news."""
        self._turn = _NEWS if in_payload else 0

    def took(self, owner: int, size: int, *, goes_on: bool) -> None:
        """So many bytes came, and a payload goes on behind them or not."""
        self._turn += size
        if goes_on:
            self._owner = owner
            self._calm += size
        elif self._owner == owner:
            self._owner = None

    def end_turn(self, owner: int) -> None:
        """The turn is over. A short one, in the middle of another owner's payload, was for news."""
        if self._owner not in (None, owner) and self._turn < _NEWS:
            self._calm = 0

    def over(self, owner: int) -> None:
        """Nothing more comes of an owner."""
        if self._owner == owner:
            self._owner = None
