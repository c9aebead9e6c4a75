"""What is said about an error of the system."""

from __future__ import annotations

import socket
import ssl

import pytest

from culm.node.sessions.tasks import reason_of


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
