"""A model of the deployed Bushbaby peer, written from docs/specs/bushbaby.md by hand; it uses no codec of Culm.

What makes that peer hard to talk to is not what it says but when, and what it cannot take:

- Messages are dealt with in ticks of 125 ms, all that have arrived since the last one together, and one message is sent
  in each. Twelve or more that arrive in one tick make it hang up. A HAVE keeps it busy, 2 ms for each log in it.
- Entries go into an inbox. Three a second are taken out of it and stored, if the target of their lipmaalink is there.
- What is in the inbox when the connection ends is lost.
- It announces its logs once. It answers a HAVE with a WANT for what it lacks *in its store*, so it asks again for what
  waits in the inbox. If it lacks nothing it says nothing.
- After ten seconds without a message it hangs up. Whether it counts from the last message or from the last entry that
  it stored nobody has measured, so tests try both (``work_is_life``).

There is no I/O here and no clock: the time is an argument, in seconds.
"""

from __future__ import annotations

import hmac
from collections import deque
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

from nacl import bindings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TICK, SILENCE, MOST_A_TICK, STORED_A_SECOND, BUSY_A_LOG = 0.125, 10.0, 11, 3.0, 0.002
HELLO, AUTH, HAVE, WANT, BAMBOO = 1, 2, 5, 6, 8
MOST_PLAINTEXT = 16_352
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

Log = tuple[bytes, int]


class Stored(NamedTuple):
    """An entry as it came: its log, its number, and its bytes with its payload behind them."""

    log: Log
    seq: int
    item: bytes


class HungUp(Exception):
    """The peer ended the connection, and why."""


# -- numbers, strings, links ---------------------------------------------------------------------------------------


def read_varu64(data: bytes, at: int) -> tuple[int, int]:
    """A VarU64 and where it ends; ``IndexError`` if the bytes end before."""
    if data[at] < 248:
        return data[at], at + 1
    end = at + 1 + data[at] - 247
    if end > len(data):
        raise IndexError
    return int.from_bytes(data[at + 1 : end], "big"), end


def varu64(number: int) -> bytes:
    """The shortest VarU64 of a number."""
    if number < 248:
        return bytes([number])
    size = (number.bit_length() + 7) // 8
    return bytes([247 + size]) + number.to_bytes(size, "big")


def base62(key: bytes) -> bytes:
    """43 digits."""
    number, digits = int.from_bytes(key, "big"), ""
    for _ in range(43):
        number, digit = divmod(number, 62)
        digits = _DIGITS[digit] + digits
    return digits.encode()


def of_base62(text: bytes) -> bytes:
    """The 32 bytes of a key."""
    number = 0
    for digit in text.decode():
        number = number * 62 + _DIGITS.index(digit)
    return number.to_bytes(32, "big")


def head(major: int, value: int) -> bytes:
    """The head of a CBOR item."""
    if value < 24:
        return bytes([major << 5 | value])
    size = next(size for size in (1, 2, 4, 8) if value < 256**size)
    return bytes([major << 5 | {1: 24, 2: 25, 4: 26, 8: 27}[size]]) + value.to_bytes(size, "big")


def encode(value: object, strings: int = 3) -> bytes:
    """CBOR as this peer writes it: all strings as text, or of another major type."""
    if isinstance(value, int):
        return head(0, value)
    if isinstance(value, bytes):
        return head(strings, len(value)) + value
    assert isinstance(value, list | tuple)
    return head(4, len(value)) + b"".join(encode(item, strings) for item in value)


def decode(data: bytes, at: int = 0, strings: int = 3) -> tuple[object, int]:
    """A CBOR item and where it ends. Strings of another major type are what crashes this peer."""
    major, value, at = data[at] >> 5, data[at] & 31, at + 1
    if value >= 24:
        size = {24: 1, 25: 2, 26: 4, 27: 8}[value]
        value, at = int.from_bytes(data[at : at + size], "big"), at + size
    if major == 0:
        return value, at
    if major == strings:
        return data[at : at + value], at + value
    if major != 4:
        raise HungUp(f"crashed on a CBOR item of major type {major}")
    items = []
    for _ in range(value):
        item, at = decode(data, at, strings)
        items.append(item)
    return items, at


def lipmaa(seq: int) -> int:
    """The number to which the lipmaalink of an entry leads."""
    power, whole = 3, 1  # ``whole`` is 1 + 3 + 9 + ...: the number of entries in a complete tree.
    while whole < seq:
        power, whole = power * 3, power + whole
    if whole == seq:
        return seq - power // 3
    rest = seq
    while True:
        power //= 3
        whole = (power - 1) // 2
        if not whole:
            return seq - 1
        rest %= whole
        if not rest:
            return seq - whole


def pool(seq: int) -> list[int]:
    """The certificate pool of an entry, ascending."""
    spine = 1
    while spine < seq:
        spine = 3 * spine + 1
    members = [spine]
    for goal in (seq, 1):
        while members[-1] > goal:
            below = lipmaa(members[-1])
            members.append(below if below >= goal else members[-1] - 1)
    return members[::-1]


def entries_of(item: bytes) -> Iterator[Stored]:
    """The entries of an item, each with its payload. What ends too early, or with an empty payload, crashes."""
    at = 0
    while at < len(item):
        start = at
        author = item[at + 1 : at + 33]
        log_id, at = read_varu64(item, at + 33)
        seq, at = read_varu64(item, at)
        if seq > 1:
            at += 66 * (1 if lipmaa(seq) == seq - 1 else 2)
        size, at = read_varu64(item, at)
        at += 66 + 64 + size
        if at > len(item):
            raise HungUp("crashed on an entry that is cut short")
        if not size and at == len(item):
            raise HungUp("crashed on an empty payload at the end of an item")
        yield Stored((author, log_id), seq, item[start:at])


def runs(numbers: list[int]) -> list[tuple[int, int]]:
    """Ascending numbers as spans."""
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1] = found[-1][0], number
        else:
            found.append((number, number))
    return found


# -- the peer ------------------------------------------------------------------------------------------------------


class DeployedPeer:
    """A peer and its store.

    ``is_literal``: it follows the document to the letter. The MAC of its HELLO has the other order, and entries are
    byte strings. Either kind of peer hangs up at a HELLO of the other one. ``waits``: it says its HELLO second.
    """

    def __init__(
        self, seed: bytes, clump: bytes, *, work_is_life: bool = False, is_literal: bool = False, waits: bool = False
    ) -> None:
        self.public, self.secret = bindings.crypto_sign_seed_keypair(seed)
        self.clump = clump
        self.work_is_life = work_is_life
        self.is_literal = is_literal
        self.waits = waits
        self.store: dict[Log, dict[int, bytes]] = {}
        self.refuses = False  # Whether nothing of what comes is stored, as with a full disk.
        self.received: list[tuple[int, int]] = []  # Type and size of each message that came, over all connections.
        self.asked: list[object] = []  # Everything that was asked for.

    def hold(self, item: bytes) -> None:
        """Have an entry with its payload from the beginning."""
        for stored in entries_of(item):
            self.store.setdefault(stored.log, {})[stored.seq] = stored.item

    def mac(self, ephemeral: bytes) -> bytes:
        """The MAC of a HELLO."""
        key, message = (ephemeral, self.clump) if self.is_literal else (self.clump, ephemeral)
        return hmac.digest(key, message, "sha512")[:32]

    def count(self, kind: int) -> int:
        """How many messages of a type came."""
        return sum(each == kind for each, _ in self.received)

    def size(self) -> int:
        """The bytes of all messages that came."""
        return sum(size for _, size in self.received)


class DeployedConnection:
    """One connection of the peer. ``random(n)`` gives n bytes."""

    def __init__(self, peer: DeployedPeer, random: Callable[[int], bytes], now: float) -> None:
        self.peer = peer
        self.random = random
        self.ephemeral = random(32)
        public = bindings.crypto_scalarmult_base(self.ephemeral)
        self.hello = peer.public + public + peer.mac(public)
        self.outbox: deque[tuple[int, bytes]] = deque([] if peer.waits else [(HELLO, self.hello)])
        self.inbox: deque[Stored] = deque()
        self.arrived: list[tuple[int, bytes]] = []  # Messages that wait for the next tick.
        self.buffer = b""
        self.next_tick = now + TICK
        self.next_import = now
        self.alive_at = now
        self.their_key = self.send_key = self.receive_key = b""
        self.is_replicating = False

    def receive(self, data: bytes) -> None:
        """Take bytes; they are looked at in the next tick."""
        self.buffer += data
        while True:
            try:
                kind, at = read_varu64(self.buffer, 0)
                size, at = read_varu64(self.buffer, at)
            except IndexError:
                return
            if len(self.buffer) < at + size:
                return
            self.arrived.append((kind, self.buffer[at : at + size]))
            self.peer.received.append((kind, at + size))
            self.buffer = self.buffer[at + size :]

    def next_timer(self) -> float:
        """When ``advance`` has something to do."""
        return min(self.next_tick, self.next_import) if self.inbox else self.next_tick

    def advance(self, now: float) -> bytes:
        """Do what is due, and give the bytes to send. ``HungUp`` if this ends the connection."""
        while self.inbox and self.next_import <= now:
            self._import()
        if now < self.next_tick:
            return b""
        self.next_tick = now + TICK
        arrived, self.arrived = self.arrived, []
        if len(arrived) > MOST_A_TICK:
            raise HungUp(f"{len(arrived)} messages came in one tick")
        for kind, value in arrived:
            self._take(kind, value, now)
        if now - self.alive_at > SILENCE:
            raise HungUp("silence")
        if not self.outbox:
            return b""
        kind, value = self.outbox.popleft()
        return varu64(kind) + varu64(len(value)) + value

    def _import(self) -> None:
        stored = self.inbox.popleft()
        log = self.peer.store.setdefault(stored.log, {})
        if self.peer.refuses:
            pass
        elif stored.seq == 1 or lipmaa(stored.seq) in log:
            log[stored.seq] = stored.item
        if self.peer.work_is_life:
            self.alive_at = max(self.alive_at, self.next_import)
        self.next_import += 1 / STORED_A_SECOND

    def _take(self, kind: int, value: bytes, now: float) -> None:
        if kind == HELLO:
            self._greet(value)
        elif kind == AUTH:
            signature = self._open(value)
            bindings.crypto_sign_open(signature + self.peer.clump + self.send_key, self.their_key)
            self.is_replicating = True
            if self.peer.store:
                newest = [(base62(author), log_id, max(log)) for (author, log_id), log in self.peer.store.items()]
                self._send(HAVE, encode(newest))
        else:
            strings = 2 if self.peer.is_literal and kind == BAMBOO else 3
            items, end = decode(plaintext := self._open(value), strings=strings)
            assert end == len(plaintext), "bytes behind the message"
            assert isinstance(items, list)
            if kind == HAVE:
                self.next_tick += BUSY_A_LOG * len(items)
                self._want(items)
            elif kind == WANT:
                self.peer.asked += items
                self._serve(items)
            else:
                if not self.inbox:
                    self.next_import = now + 1 / STORED_A_SECOND
                self.inbox.extend(stored for item in items for stored in entries_of(item))
        self.alive_at = now

    def _greet(self, value: bytes) -> None:
        self.their_key, ephemeral, mac = value[:32], value[32:64], value[64:]
        if mac != self.peer.mac(ephemeral):
            raise HungUp("the MAC of the HELLO is wrong")
        if self.peer.waits:
            self.outbox.append((HELLO, self.hello))
        curve = bindings.crypto_sign_ed25519_pk_to_curve25519(self.their_key)
        own = bindings.crypto_sign_ed25519_sk_to_curve25519(self.peer.secret)
        self.send_key = blake2b(bindings.crypto_scalarmult(self.ephemeral, curve), digest_size=32).digest()
        self.receive_key = blake2b(bindings.crypto_scalarmult(own, ephemeral), digest_size=32).digest()
        signed = bindings.crypto_sign(self.peer.clump + self.receive_key, self.peer.secret)
        self._send(AUTH, signed[:64])

    def _want(self, items: list[Any]) -> None:
        wants: list[object] = []
        for text, log_id, newest in items:
            log = self.peer.store.get((of_base62(text), log_id), {})
            lacking = [seq for seq in range(1, newest + 1) if seq not in log]
            if not log:
                wants.append((text, log_id, newest))
            elif max(log) < newest:
                wants.append((text, log_id, max(log) + 1, newest))
            else:
                wants += [(text, log_id, low, high) for low, high in runs(lacking)]
        if wants:
            self._send(WANT, encode(wants))

    def _serve(self, wants: list[Any]) -> None:
        for text, *numbers in wants:
            for (author, log_id), log in self.peer.store.items():
                if author != of_base62(text) or numbers[:1] not in ([], [log_id]):
                    continue
                members = list(range(1, max(log) + 1))
                if len(numbers) == 2:
                    members = pool(numbers[1])
                elif len(numbers) == 3:
                    members = list(range(numbers[1], numbers[2] + 1))
                found = [log[seq] for seq in members if seq in log]
                for at in range(0, len(found), 19):
                    self._send(BAMBOO, encode(found[at : at + 19], 2 if self.peer.is_literal else 3))

    def _send(self, kind: int, plaintext: bytes) -> None:
        assert len(plaintext) <= MOST_PLAINTEXT, "this model has only the standard cipher"
        nonce = self.random(24)
        self.outbox.append((kind, nonce + bindings.crypto_secretbox(plaintext, nonce, self.send_key)))

    def _open(self, value: bytes) -> bytes:
        assert len(value) <= MOST_PLAINTEXT + 40, "this model has only the standard cipher"
        return bindings.crypto_secretbox_open(value[24:], value[:24], self.receive_key)
