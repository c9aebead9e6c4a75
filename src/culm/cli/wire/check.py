"""``culm wire check``: drives the checks of ``culm.conformance`` against a peer, each over a connection of its own."""

import argparse
import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from culm.bamboo import Entry
from culm.bushbaby import Dialect
from culm.cli.arguments import log_type
from culm.cli.command import Commands
from culm.cli.identity import ask_passphrase
from culm.cli.nodeoptions import add_speaking, chosen_clump, settings_of
from culm.cli.output import note, print_json
from culm.conformance import SUITES, Check, Outcome, Refused, Result, Subject, Suite, outcome_of
from culm.conformance.check import SURVEYED
from culm.errors import ConfigError, NetworkError
from culm.node.home import Home
from culm.node.network.transport import Streams, connect
from culm.node.network.urls import PeerUrl
from culm.node.surroundings import clock

_READ_BYTES = 64 * 1024
_LONGEST = 20
"""A check may take so many times the timeout, so that a peer that answers byte by byte cannot hold it up for ever."""
_FIRST_WAIT = 1.0
"""Seconds before the first new call of a peer that refuses us; each further wait is twice as long."""

_BYTES_SHOWN = 512  # of what was sent and received; --json has all
_DAY = 86_400.0


class StreamLine:
    """A connection as a line. ``timeout``: the seconds of silence after which patience is over."""

    def __init__(self, streams: Streams, timeout: float) -> None:
        self._reader, self._writer = streams
        self._timeout = timeout
        self._until = clock() + timeout

    async def send(self, data: bytes) -> None:
        """Write bytes; a peer that has hung up loses them, which the next ``read`` tells."""
        with suppress(OSError):
            self._writer.write(data)
            async with asyncio.timeout(self._timeout):
                await self._writer.drain()

    async def read(self) -> bytes | None:
        """The next bytes; none at the end of the connection; None after the timeout."""
        try:
            async with asyncio.timeout(max(0.0, self._until - clock())):
                return await self._reader.read(_READ_BYTES)
        except TimeoutError:
            return None
        except OSError:
            return b""

    def be_patient(self) -> None:
        """Wait for the whole timeout again."""
        self._until = clock() + self._timeout

    async def close(self) -> None:
        """Hang up."""
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()


class Driver:
    """Makes checks, each over a new connection from ``dial``.

    ``timeout``: seconds of silence that count as no answer. ``patience``: seconds that a check waits in all for a peer
    that refuses the connection, as it does while it punishes our address for the violation of an earlier check.
    """

    def __init__(self, dial: Callable[[], Awaitable[Streams]], timeout: float, patience: float) -> None:
        self._dial = dial
        self._timeout = timeout
        self._patience = patience
        self._has_met = False  # The peer could be reached at least once.
        self._has_greeted = False  # The peer took part in a check at least once.
        self.was_refused = False  # Checks were left out because the peer refused us.
        self._has_broken = False  # A check has broken the protocol, so that the peer may refuse us now.

    async def run(self, suite: Suite[Any], subject: Subject) -> AsyncIterator[Result]:
        """The results of all checks, as they come. ``NetworkError`` if the peer cannot be reached."""
        if subject.log is not None:
            subject = await self._surveyed(suite, subject)
        for check in suite.checks:  # In their order: those that break the protocol come last.
            yield await self._outcome(suite, check, subject)

    async def _surveyed(self, suite: Suite[Any], subject: Subject) -> Subject:
        found: list[tuple[Entry, bytes]] = []

        async def survey(talk: Any) -> None:  # noqa: ANN401 - the talk of any suite
            found.extend(await suite.survey(talk))

        await self._outcome(
            suite, Check("survey", "", f"The first {SURVEYED} entries of the log come.", survey), subject
        )
        return replace(subject, entries=tuple(found))

    async def _outcome(self, suite: Suite[Any], check: Check[Any], subject: Subject) -> Result:
        waited, wait = 0.0, _FIRST_WAIT
        while True:
            reason = await self._try(suite, check, subject)
            if isinstance(reason, Result):
                return reason
            wait = min(wait, self._patience - waited)
            if not wait:
                is_refused = isinstance(reason, Refused)
                if is_refused and not self._has_greeted:
                    raise NetworkError(f"{reason}, for {waited:g} s: it may refuse us because of an earlier check")
                self._patience = 0.0  # Each check that is left gets one call, so that the run comes to its end.
                self.was_refused = self.was_refused or is_refused
                outcome = Outcome.SKIPPED if self._has_broken and is_refused else Outcome.FAILED
                return _result(check, outcome, f"{reason}, for {waited:g} s" if waited else f"{reason}, as before")
            await asyncio.sleep(wait)
            waited, wait = waited + wait, 2 * wait

    async def _try(self, suite: Suite[Any], check: Check[Any], subject: Subject) -> Result | Refused | NetworkError:
        """Make a check over one connection: its result, or why it could not be made now."""
        try:
            line = StreamLine(await self._dial(), self._timeout)
        except NetworkError as error:
            if not self._has_met:
                raise
            return error
        self._has_met = True
        try:
            async with asyncio.timeout(_LONGEST * self._timeout):
                result = await outcome_of(suite, check, line, subject)
        except TimeoutError:
            result = _result(check, Outcome.FAILED, f"no decision within {_LONGEST * self._timeout:g} s")
        except Refused as refused:
            return refused
        finally:
            await line.close()
        self._has_greeted = True
        self._has_broken = self._has_broken or check.breaks
        return result


def _result(check: Check[Any], outcome: Outcome, reason: str) -> Result:
    return Result(check.item, check.source, check.claim, outcome, expected=check.claim, reason=reason)


def register(commands: Commands) -> None:
    """Add the command of this module."""
    parser = commands.add("wire check", _check)
    parser.add_argument("protocol", choices=sorted(SUITES), help="the protocol that the peer is checked for")
    parser.add_argument("url", metavar="URL", type=PeerUrl.parse, help="where the peer listens")
    parser.add_argument(
        "--log",
        metavar="AUTHOR/LOG",
        type=log_type,
        help="a log that the peer holds; without it, checks about its entries are skipped",
    )
    parser.add_argument(
        "--only",
        metavar="ITEM",
        action="append",
        help="make only this check, by its name in the output; can be repeated",
    )
    parser.add_argument(
        "--timeout", metavar="SECONDS", type=float, default=3.0, help="silence that counts as no answer (default: 3)"
    )
    parser.add_argument(
        "--patience",
        metavar="SECONDS",
        type=float,
        default=60.0,
        help="how long a check waits for a peer that refuses calls because of an earlier check (default: 60)",
    )
    add_speaking(parser)


def _check(arguments: argparse.Namespace) -> int:
    """Make all checks and print their results: 0 if none failed."""
    url: PeerUrl = arguments.url
    if url.scheme != arguments.protocol:
        raise ConfigError(f"{url} is no address of a peer that speaks {arguments.protocol}")
    if not 0 < arguments.timeout < _DAY or not 0 <= arguments.patience < _DAY:
        raise ConfigError("--timeout and --patience are seconds: more than 0, and less than a day")
    suite = _chosen(SUITES[arguments.protocol], arguments.only)
    driver = Driver(partial(connect, url), arguments.timeout, arguments.patience)
    results = asyncio.run(_collect(driver, suite, _subject(arguments), arguments.json))
    counts = Counter(result.outcome for result in results)
    if arguments.json:
        print_json({"protocol": arguments.protocol, "checks": [_as_json(result) for result in results]})
    else:
        print(", ".join(f"{counts[outcome]} {outcome.value}" for outcome in Outcome))
        if driver.was_refused:
            note("the peer refused calls because of earlier checks; start a Culm node with --limit penalty_seconds=0")
    return 1 if counts[Outcome.FAILED] else 0


def _chosen(suite: Suite[Any], items: list[str] | None) -> Suite[Any]:
    """The checks that were asked for; all if none was."""
    if not items:
        return suite
    names = [check.item for check in suite.checks]
    if unknown := [item for item in items if item not in names]:
        raise ConfigError(f"there is no check {unknown[0]!r}; there are: {', '.join(names)}")
    return replace(suite, checks=tuple(check for check in suite.checks if check.item in items))


def _subject(arguments: argparse.Namespace) -> Subject:
    """What is checked. Bushbaby is spoken by a new identity each time, so that none of ours is blamed for a check."""
    subject = Subject(os.urandom, arguments.log)
    if arguments.protocol != "bushbaby":
        return subject
    settings = settings_of(arguments)
    identity = None
    if arguments.identity is not None:
        identity = Home.find(arguments.home).identity(settings["identity"], ask_passphrase)
    return replace(
        subject,
        identity=identity,
        clump=chosen_clump(arguments),
        dialect=Dialect(settings["dialect"] or Dialect.DEPLOYED),
    )


async def _collect(driver: Driver, suite: Suite[Any], subject: Subject, is_quiet: bool) -> list[Result]:
    results = []
    async for result in driver.run(suite, subject):
        results.append(result)
        if not is_quiet:
            print("\n".join(_lines(result)), flush=True)
    return results


def _lines(result: Result) -> Iterator[str]:
    """A result for people: one line, and of a failure what was sent, what was due and what was received."""
    yield f"{result.outcome.value:8}{result.item} ({result.source})"
    if result.outcome is Outcome.SKIPPED:
        yield f"        {result.reason}"
    elif result.outcome is Outcome.FAILED:
        yield f"        claim     {result.claim}"
        if result.expected != result.claim:
            yield f"        expected  {result.expected}"
        yield f"        came      {result.reason}"
        yield f"        sent      {_hex(result.sent)}"
        yield f"        received  {_hex(result.came)}"


def _hex(data: bytes) -> str:
    """Bytes for ``culm wire decode``: the last ones, because the difference is there."""
    shown = data[-_BYTES_SHOWN:].hex()
    return f"{len(data)} bytes, the last of them {shown}" if len(data) > _BYTES_SHOWN else shown or "nothing"


def _as_json(result: Result) -> dict[str, str]:
    return asdict(result) | {"outcome": result.outcome.value, "sent": result.sent.hex(), "came": result.came.hex()}
