"""Finding out which logs differ, as far as the node does it.

Specification: docs/specs/culm.md, "What is compared".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from culm.node.culm.discovery import Discovery
from culm.node.interests.missing import EVERYTHING
from culm.node.storage.worker import StoreWorker
from culm.session import Interests
from culm.store import SQLiteStore, View
from culm.testing.builders import build_log
from tests.node.links import CONFIG, SURROUNDINGS, run

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import pytest

    from culm.session import Offer


class Peered:
    """A connection whose peer wants everything."""

    their_interests = Interests({(): EVERYTHING})


def test_logs_are_named_in_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever number of logs a peer asks the names of, the store looks up some at a time, and others come between."""
    asked: list[int] = []

    async def main() -> int:
        with SQLiteStore(tmp_path / "s.db") as store:
            store.add([item for seed in range(200) for item in build_log(1, seed=seed).items()])
            with store.record_set(View.HEADS) as records:
                heads = [records.id(at) for at in range(len(records))]
            worker = StoreWorker(store, SURROUNDINGS)
            discovery = Discovery(cast("Any", Peered()), worker, CONFIG, lambda: None, lambda: None, lambda _: None)
            offers = discovery._offers

            def noted(some: Iterable[bytes]) -> list[Offer]:
                asked.append(len(list(some)))
                return offers(some)

            monkeypatch.setattr(discovery, "_offers", noted)
            named = await discovery._named(heads)
            assert {offer.log for offer in named} == set(store.logs_of(heads))
            discovery.close()
            worker.close()
            return len(named)

    assert run(main) == 200
    assert max(asked) <= 64
    assert sum(asked) == 200
