"""Starting Spark, as far as it can be tested without starting it."""

from __future__ import annotations

import socket

import pytest

from culm.errors import ConfigError
from culm.spark.runtime.session import check_reachable


def test_a_master_that_is_not_there() -> None:
    """A master nobody listens at is one clear error at once, as is an address that is none."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        check_reachable(f"spark://no-such-host.invalid:1,127.0.0.1:{port}")
    for master in (f"spark://127.0.0.1:{port}", "spark://", "spark://127.0.0.1:x"):
        with pytest.raises(ConfigError, match="cannot reach"):
            check_reachable(master)


def test_local_masters_need_nobody() -> None:
    """A local master is not looked for."""
    check_reachable("local[*]")
    check_reachable("local-cluster[2,1,1024]")
