"""What is said about an error of the system, and about a command that has ended."""

from __future__ import annotations

import socket
import ssl

import pytest

from culm.bamboo import Identity
from culm.node.config import NodeConfig
from culm.node.network.urls import PeerUrl
from culm.node.sessions.session import Purpose
from culm.node.sessions.stats import PeerRefused
from culm.node.sessions.tasks import reason_of
from culm.node.sync import sync
from culm.testing import memory_store
from tests.node.links import run_really


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ConnectionResetError(104, "Connection reset by peer"), "Connection reset by peer"),
        (ConnectionRefusedError(111, "Connect call failed ('127.0.0.1', 1)"), "Connection refused"),
        (socket.gaierror(-2, "Name or service not known"), "Name or service not known"),
        (ssl.SSLError(1, "[SSL: DECRYPTION_FAILED_OR_BAD_RECORD_MAC] decryption failed"), "decryption failed"),
        (OSError("odd"), "odd"),
        (OSError(), "it was closed"),
    ],
)
def test_the_systems_words(error: OSError, said: str) -> None:
    """The words of the system, without a number in brackets, and without an address that the message names already."""
    assert reason_of(error).endswith(said)
    assert "[Errno" not in reason_of(error)


@pytest.mark.subprocess
def test_a_command_that_ends_before_it_says_anything() -> None:
    """The session's error names the exit code of the command."""

    async def main() -> None:
        with memory_store() as store:
            url = PeerUrl.parse("proposals+exec:sh -c 'exit 3'")
            await sync(Identity(bytes(32)), NodeConfig(b""), store, url, Purpose(is_live=False))

    with pytest.raises(PeerRefused, match="the command ended with exit code 3 before it sent anything"):
        run_really(main)
