"""What a node's sessions share: which payloads some session is fetching."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from culm import Store
from culm.node.interests.policy import Policy
from culm.node.storage.source import StoreSource
from culm.testing import build_log

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOG = build_log(3)
KEY = LOG.identity.public, LOG.log_id


@pytest.fixture
def source(tmp_path: Path) -> Iterator[StoreSource]:
    """A source over an empty store."""
    with Store(tmp_path / "store.db") as store:
        found = StoreSource(store, Policy())
        yield found
        found.close()


def expected(source: StoreSource) -> list[int]:
    """The numbers of the entries whose payloads count as being fetched."""
    return [entry.seq for entry in LOG.entries if source.expects(entry.log, entry.seq)]


def test_a_payload_is_expected_as_long_as_one_session_fetches_it(source: StoreSource) -> None:
    """Of two sessions that fetch a payload, the second one's end counts."""
    source.fetches(KEY, 1, 3)
    source.fetches(KEY, 1, 1)
    source.fetches(KEY, 1, 1)
    assert expected(source) == [1, 2, 3]
    source.fetched(KEY, 1, 3)
    assert expected(source) == [1]
    source.fetched(KEY, 1, 1)
    assert expected(source) == [1]
    source.fetched(KEY, 1, 1)
    assert expected(source) == []


def test_sessions_on_several_threads_lose_no_count(source: StoreSource) -> None:
    """Each fetch that began and ended on any thread is counted, so that none is expected for ever or given up early."""

    def fetch(_: int) -> None:
        for _ in range(3_000):
            source.fetches(KEY, 1, 3)
            source.fetched(KEY, 1, 3)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(fetch, range(4)))
    finally:
        sys.setswitchinterval(interval)
    assert expected(source) == []
