"""``culm wire check`` against a peer that shares no code with Culm: the model of the deployed one, in both dialects."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from culm.bushbaby import Dialect
from culm.cli.wire.check import Driver
from culm.conformance import SUITES, Outcome, Subject
from culm.node.network.transport import connect
from culm.testing import build_log
from tests.interop.deployed import DeployedPeer
from tests.interop.meeting import HOUR, Meeting, give
from tests.node.links import run

CLUMP = b"Quagga"


@pytest.mark.parametrize("dialect", Dialect, ids=lambda dialect: dialect.value)
@pytest.mark.parametrize("waits", [False, True])
def test_what_the_peer_does_right_is_found(dialect: Dialect, waits: bool) -> None:
    """All checks that keep to the protocol pass, whoever of the two sends HELLO first."""
    peer = DeployedPeer(bytes(31) + b"\x05", CLUMP, is_literal=dialect is Dialect.DOCUMENT, waits=waits)
    log = build_log(5)
    give(peer, log)
    suite = SUITES["bushbaby"]
    suite = replace(suite, checks=tuple(check for check in suite.checks if not check.breaks))
    subject = Subject(os.urandom, log.entries[0].log, clump=CLUMP, dialect=dialect)

    async def main() -> list[str]:
        async with Meeting(peer).listening() as url:
            driver = Driver(lambda: connect(url), timeout=2.0, patience=0.0)
            results = [result async for result in driver.run(suite, subject)]
            assert len(results) == len(suite.checks)
            return [result.item for result in results if result.outcome is not Outcome.PASSED]

    assert [] == run(main, HOUR)
