"""Peers that are no more than a script: what they say first, and what they say to each thing that they are sent."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from culm.conformance import SUITES, Result, Subject, outcome_of
from culm.testing import LogBuilder, build_log

if TYPE_CHECKING:
    from culm.bamboo import Entry
    from culm.conformance import Suite

CLOSES = None
"""In place of an answer: the peer ends the connection."""
LOG = build_log(5)
ENDED = LogBuilder(LOG.identity)
ENDED.append(b"the only one", is_end=True)


def items_of(log: LogBuilder) -> tuple[tuple[Entry, bytes], ...]:
    """The entries of a log with their payloads."""
    return tuple((entry, log.payloads[entry.hash]) for entry in log.entries)


SUBJECT = Subject(lambda size: bytes([7]) * size, LOG.entries[0].log, items_of(LOG), LOG.identity, b"Quagga")


def hexed(text: str) -> bytes:
    """Bytes written in hex."""
    return bytes.fromhex(text)


class Script:
    """A line to a peer that gives its answers in order, one for each time it is sent something, and then is silent."""

    def __init__(self, *answers: bytes | None) -> None:
        self._answers = list(answers)
        self._said: list[bytes] = []
        self.answer()

    def answer(self) -> None:
        """Say the next thing of the script."""
        if self._answers:
            answer = self._answers.pop(0)
            self._said.append(b"" if answer is CLOSES else answer or b"-")

    async def send(self, data: bytes) -> None:  # noqa: ARG002 - a script does not listen
        """Take something, and answer."""
        self.answer()

    async def read(self) -> bytes | None:
        """What the peer said and nobody has read."""
        while self._said:
            said = self._said.pop(0)
            if said != b"-":
                return said
        return None

    def be_patient(self) -> None:
        """A script has no clock."""


def made(protocol: str, item: str, line: Any, **subject: Any) -> Result:
    """What comes of one check against a line."""
    suite: Suite[Any] = SUITES[protocol]
    check = next(check for check in suite.checks if check.item == item)
    return asyncio.run(outcome_of(suite, check, line, replace(SUBJECT, **subject)))


def polite(protocol: str) -> list[str]:
    """The checks of a protocol that do not break it."""
    return [check.item for check in SUITES[protocol].checks if not check.breaks]


def breaking(protocol: str) -> list[str]:
    """The checks of a protocol that break it."""
    return [check.item for check in SUITES[protocol].checks if check.breaks]
