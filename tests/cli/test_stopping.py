"""A node that is told to stop stores what it has, and ends well and soon."""

from __future__ import annotations

import json
import signal
import time
from typing import TYPE_CHECKING

import pytest

from culm import SQLiteStore
from culm.testing import build_log
from tests.cli.test_network import serving
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.culm import Culm

LOG = build_log(4000, payload_size=100, seed=4)


def stored(home: Path) -> int:
    """The verified entries of a home."""
    with SQLiteStore(home / "store.db", read_only=True) as store:
        return sum(summary.entries for summary in store.logs())


@pytest.mark.parametrize("scheme", ["bushbaby", "intervals", "proposals"])
def test_a_stop_in_the_middle_loses_nothing(culm: Culm, scheme: str) -> None:
    """SIGTERM while entries pour in: exit code 0 within seconds, what came is kept, the rest comes the next time."""
    bob = culm.at("bob")
    bob("init")
    with SQLiteStore(culm.home / "store.db") as store:
        store.add(LOG.items(), authenticated=True)
    name = f"{LOG.identity.public.hex()}/0"
    with serving(culm.home, "--listen", f"{scheme}://127.0.0.1:0") as (url, source):
        assert source.stdout is not None
        address = source.stdout.readline().split()[1] if scheme != "bushbaby" else url
        with serving(bob.home, "--peer", address, "--interest", name, "--log-format", "json") as (_, process):
            while stored(bob.home) < 300:
                pass
            begun = time.monotonic()
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=PATIENCE)
            assert (process.returncode, out, err) == (0, "", "")
            assert time.monotonic() - begun < 10
        before = stored(bob.home)
        assert bob("verify").code == 0
        named = [name] if scheme != "bushbaby" else []
        result = bob("sync", address, *named, "--clump", "x", "--json")
        assert result.code == 0, result
        assert result.json["entries_received"] <= 4000 - before + 1
        assert stored(bob.home) == 4000


def test_a_large_payload_goes_on_where_it_was(culm: Culm) -> None:
    """SIGTERM within a large payload keeps the bytes that came: only the others are fetched afterwards."""
    bob = culm.at("bob")
    bob("init")
    payload = culm.home / "large"
    payload.write_bytes(bytes(range(256)) * 200_000)
    place = culm("append", 1, payload).out.strip()
    log = place.rpartition("/")[0]
    with serving(culm.home, "--listen", "intervals://127.0.0.1:0", "--limit", "max_send_rate=8000000") as (_, source):
        assert source.stdout is not None
        address = source.stdout.readline().split()[1]
        with serving(bob.home, "--peer", address, "--interest", log) as (_, process):
            while True:
                shown = bob("show", place, "--json")
                if shown.code == 0 and shown.json["payload_held"] > 5_000_000:
                    break
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0
        held = bob("show", place, "--json").json["payload_held"]
        assert 5_000_000 < held < 51_200_000
        result = bob("sync", address, log, "--clump", "x", "--json")
        assert json.loads(result.out.splitlines()[-1])["payload_bytes"] == 51_200_000 - held
    assert bob("verify").code == 0
