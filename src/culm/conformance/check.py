"""What a check is, and the conversation with a peer in which it is made.

A test suite for a protocol usually drives two programs that it started itself. Here the other program is unknown, runs
elsewhere, and cannot be asked what it did. All that can be judged is what it sends and when it hangs up. So each check
is a short conversation over a connection of its own: greet, send some bytes, read until the judgement is certain, the
peer hangs up, or it stays silent for too long. A violation ends a connection, so no other check may share it.

A check is a coroutine that gets a ``Talk``. It returns if the peer did what the protocol asks for, and raises
``Differs`` or ``NotDecided``. It does no I/O and reads no clock: a ``Line`` brings bytes and tells when patience
is over.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Generic, Protocol, TypeVar

from culm.bamboo import Entry, Identity, is_authentic, yamf_hash
from culm.bushbaby import Dialect
from culm.types import Log

MOST_BYTES = 4 * 1024 * 1024
"""The most bytes that a check reads of a peer, so that a peer without an end cannot fill our memory."""
MOST_PAYLOAD = 256 * 1024
"""Bytes of the largest payload that a check asks for; a check of a log with larger ones begins after them."""
SURVEYED = 5
"""Entries of the log that the checks use: entry 4 is the first that links to one far below, and 5 stands behind it."""


class Line(Protocol):
    """The bytes of one connection, as its owner moves them."""

    async def send(self, data: bytes) -> None:
        """Write bytes; a connection that the peer has closed swallows them."""

    async def read(self) -> bytes | None:
        """The next bytes; none once the peer has closed the connection; None when patience is over."""

    def be_patient(self) -> None:
        """Wait for the whole timeout again, because the peer has done something useful."""


class Differs(Exception):
    """The peer did something else than the protocol asks for. ``came``: what; ``expected``: what was due instead."""

    def __init__(self, came: str, expected: str = "") -> None:
        super().__init__(came)
        self.came = came
        self.expected = expected


class NotDecided(Exception):
    """This peer, or this log, gives no occasion for the check. The text says why."""


class Refused(Exception):
    """The peer hung up before it had greeted us, as peers do while they punish our address."""

    def __str__(self) -> str:
        return "the peer hangs up before it has greeted us"


@dataclass(frozen=True, slots=True)
class Subject:
    """What the checks are about.

    ``random_bytes(n)`` gives n unpredictable bytes. ``log``: one that the peer holds, or None. ``entries``: its first
    ones, each with its payload, as the peer has sent them. ``identity``, ``clump`` and ``dialect`` are for Bushbaby.
    """

    random_bytes: Callable[[int], bytes] = field(repr=False)
    log: Log | None = None
    entries: Sequence[tuple[Entry, bytes]] = ()
    identity: Identity | None = None
    clump: bytes = b""
    dialect: Dialect = Dialect.DEPLOYED

    @property
    def held(self) -> Log:
        """The log, for checks that are made only if there is one."""
        if self.log is None:
            raise NotDecided("no log was named; give --log AUTHOR/LOG")
        return self.log

    def hash_of(self, seq: int) -> bytes:
        """The hash of one of the first entries of the log."""
        return self.entries[seq - 1][0].hash

    def size_of(self, seq: int) -> int:
        """The size of the payload of one of the first entries of the log."""
        return self.entries[seq - 1][0].size


class Talk:
    """A conversation. ``sent`` and ``came`` keep its bytes for the report, ``unread`` those that were not looked at."""

    def __init__(self, line: Line, subject: Subject) -> None:
        self.line = line
        self.subject = subject
        self.sent = bytearray()
        self.came = bytearray()
        self.unread = bytearray()
        self.is_closed = False

    async def send(self, data: bytes) -> None:
        """Send bytes in one piece, and be patient again."""
        await self.reply(data)
        self.line.be_patient()

    async def reply(self, data: bytes) -> None:
        """Send bytes that the protocol asks for meanwhile, such as the answer to a ping."""
        self.sent += data
        await self.line.send(data)

    async def send_slowly(self, data: bytes) -> None:
        """Send bytes one at a time."""
        for at in range(len(data)):
            await self.send(data[at : at + 1])

    async def more(self) -> bool:
        """Wait for more bytes of the peer; False if it has closed the connection or stays silent."""
        data = None if self.is_closed else await self.line.read()
        if not data:
            self.is_closed = self.is_closed or data == b""
            return False
        self.came += data
        self.unread += data
        if len(self.came) > MOST_BYTES:
            raise Differs(f"more than {MOST_BYTES} bytes", "an end of what the peer sends")
        return True

    async def closes(self) -> None:
        """Expect that the peer ends the connection."""
        while await self.more():
            self.unread.clear()
        if not self.is_closed:
            raise Differs("the connection stays open", "the peer ends the connection")

    def silence(self) -> str:
        """What to report if an answer did not come."""
        return "the peer ended the connection" if self.is_closed else "silence"


TalkT = TypeVar("TalkT", bound=Talk)


@dataclass(frozen=True, slots=True)
class Check(Generic[TalkT]):
    """One item. ``claim`` says what a conforming peer does, ``source`` where that is written.

    ``entries``: so many first entries of a log that the peer holds are needed. ``opening`` makes what to greet with
    instead of the usual greeting. ``breaks``: it breaks the protocol, so that the peer may refuse us afterwards.
    """

    item: str
    source: str
    claim: str
    run: Callable[[TalkT], Awaitable[None]]
    entries: int = 0
    opening: Callable[[TalkT], bytes] | None = None
    breaks: bool = False


@dataclass(frozen=True, slots=True)
class Suite(Generic[TalkT]):
    """The checks of one protocol.

    ``talk`` makes a conversation of a line. ``begin`` greets, with an opening or (None) as usual, and returns once the
    peer has shown that it speaks the protocol. ``survey`` fetches the first entries of the subject's log. Checks that
    break the protocol come last, because a peer may refuse further calls for a while after each of them.
    """

    talk: Callable[[Line, Subject], TalkT]
    begin: Callable[[TalkT, bytes | None], Awaitable[None]]
    survey: Callable[[TalkT], Awaitable[Sequence[tuple[Entry, bytes]]]]
    checks: tuple[Check[TalkT], ...]


class Outcome(Enum):
    """How a check ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a check. ``reason``: of a failed one the answer instead of ``expected``, of a skipped one why."""

    item: str
    source: str
    claim: str
    outcome: Outcome
    sent: bytes = b""
    came: bytes = b""
    expected: str = ""
    reason: str = ""


class Listing(Generic[TalkT]):
    """Collects checks as they are defined, in their order."""

    def __init__(self) -> None:
        self.checks: list[Check[TalkT]] = []

    def __call__(
        self,
        item: str,
        source: str,
        claim: str | None = None,
        *,
        entries: int = 0,
        opening: Callable[[TalkT], bytes] | None = None,
        breaks: bool = False,
    ) -> Callable[[Callable[[TalkT], Awaitable[None]]], None]:
        """A decorator that makes a check of a coroutine function, whose docstring is the claim if none is given."""

        def add(run: Callable[[TalkT], Awaitable[None]]) -> None:
            self.checks.append(Check(item, source, claim or run.__doc__ or "", run, entries, opening, breaks))

        return add


def rows(table: str) -> Iterator[list[str]]:
    """The cells of a table whose columns are parted by bars."""
    for line in table.strip().splitlines():
        yield [cell.strip() for cell in line.split("|")]


async def outcome_of(suite: Suite[TalkT], check: Check[TalkT], line: Line, subject: Subject) -> Result:
    """Make one check over a fresh line; ``Refused`` if the peer does not talk to us now."""
    if len(subject.entries) < check.entries:
        why = f"this needs the log up to entry {check.entries}; the peer sends it up to entry {len(subject.entries)}"
        if subject.log is None:
            why = "this needs a log that the peer holds; give --log AUTHOR/LOG"
        return Result(check.item, check.source, check.claim, Outcome.SKIPPED, reason=why)
    talk = suite.talk(line, subject)
    outcome, expected, reason = Outcome.PASSED, check.claim, ""
    try:
        await suite.begin(talk, None if check.opening is None else check.opening(talk))
        await check.run(talk)
    except Differs as difference:
        outcome, reason = Outcome.FAILED, difference.came
        expected = difference.expected or check.claim
    except NotDecided as undecided:
        outcome, reason = Outcome.SKIPPED, str(undecided)
    return Result(check.item, check.source, check.claim, outcome, bytes(talk.sent), bytes(talk.came), expected, reason)


def check_entry(entry: Entry, what: str) -> None:
    """Expect that an entry of the peer is signed by its author."""
    if not is_authentic(entry):
        raise Differs(f"{what} whose signature does not verify", f"{what}, signed by the author of the log")


def check_payload(entry: Entry, payload: bytes) -> None:
    """Expect that a whole payload is the one that its entry names."""
    if yamf_hash(payload) != entry.payload_hash:
        raise Differs(f"a payload of entry {entry.seq} with another hash", f"the payload that entry {entry.seq} names")
