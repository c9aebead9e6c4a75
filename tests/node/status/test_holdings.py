"""What is told of a store, against what is in it."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

import pytest

from culm.bamboo import MAX_U64, Entry, certificate_pool, has_lipmaalink, lipmaa, path
from culm.bamboo.verification import is_authentic
from culm.errors import NotHeld
from culm.node.status import holdings
from culm.store import SQLiteStore
from culm.store.exchange import Importer
from culm.testing.builders import build_log
from culm.wire.places import log_text

if TYPE_CHECKING:
    from pathlib import Path

WHOLE, GAPPY, FORKED = ((build_log(1, seed=seed).identity.public, seed) for seed in (1, 2, 3))


def test_a_page_of_logs(store: SQLiteStore) -> None:
    """Every log has its figures and a strip of what is held, and all of it can be written as JSON."""
    page = holdings.logs(store)
    assert page == json.loads(json.dumps(page))
    assert 3 == page["count"]
    found = {log["log"]: log for log in page["logs"]}
    assert 20 * "f" == found[log_text(WHOLE)]["cells"]
    gappy = found[log_text(GAPPY)]
    assert "ffff" + 8 * "n" + "f" + 17 * "n" + "w" + 8 * "n" + "f" == gappy["cells"]
    assert ("40", 6, "33", 1) == (gappy["newest"], gappy["entries"], gappy["missing"], gappy["waiting"])
    assert 6 == gappy["certified"], "each is on the spine, or is reached from 4 over entries held"
    forked = found[log_text(FORKED)]
    assert 7 * "f" + 5 * "x" == forked["cells"]
    assert (7, 4) == (forked["entries"], forked["certified"]), "the pools of 5, 6 and 7 step down over invalid entries"
    assert ("8", "7", "7") == (forked["forked_at"], forked["newest"], forked["complete_to"])


def test_the_clumps_of_a_log(store: SQLiteStore) -> None:
    """A log is shown with the clumps that it is shared in; None: in every one."""
    assert holdings.log(store, WHOLE)["clumps"] is None
    store.share(WHOLE, b"work")
    store.share(WHOLE, b"")
    expected = {log_text(WHOLE): ["(no clump)", "work"], log_text(GAPPY): None, log_text(FORKED): None}
    assert expected == {log["log"]: log["clumps"] for log in holdings.logs(store)["logs"]}
    assert ["(no clump)", "work"] == holdings.log(store, WHOLE)["clumps"]


def test_evidence(store: SQLiteStore) -> None:
    """A browser gets the entries of the path down to entry 1, as signed; none where the path is not verified."""
    found = holdings.evidence(store, WHOLE, 18)["entries"]
    entries = [Entry.decode(bytes.fromhex(text)) for text in found]
    assert [1, 4, 13, 17, 18] == [entry.seq for entry in entries] == path(18, 1)[::-1]
    assert all(map(is_authentic, entries))
    for log, seq in ((GAPPY, 31), (FORKED, 9), (WHOLE, 21), ((bytes(32), 0), 1)):
        with pytest.raises(NotHeld):
            holdings.evidence(store, log, seq)


@pytest.mark.slow
def test_pages_are_bounded(store: SQLiteStore) -> None:
    """No more logs, cells or entries are told of than the limits say, whatever is asked for."""
    for log_id in range(100, 230):
        store.add(build_log(1, log_id=log_id).items())
    assert holdings.MOST_LOGS == len(holdings.logs(store, limit=10**9)["logs"])
    log = build_log(2, seed=8)
    far = log.make(MAX_U64, b"far", backlink=log.entries[0].hash, lipmaalink=log.entries[1].hash)
    store.add([*log.items(), (far, None)])
    assert holdings.MOST_CELLS == len(holdings.coverage(store, far.log, 1, MAX_U64, 10**9)["cells"])
    drawing = holdings.links(store, far.log, MAX_U64, 10**9)
    assert len(drawing["links"]) <= 2 * holdings.MOST_LINKED
    assert str(MAX_U64) == drawing["chosen"]


def test_coverage_of_a_part(store: SQLiteStore) -> None:
    """A closer look at some numbers has a cell for each, which says where it begins."""
    part = holdings.coverage(store, GAPPY, 3, 14, 100)
    assert "ffnnnnnnnnfn" == part["cells"]
    assert [str(seq) for seq in range(3, 15)] == part["starts"]
    beyond = holdings.coverage(store, GAPPY, 39, MAX_U64, 100)
    assert ("39", "40", "nf") == (beyond["low"], beyond["high"], beyond["cells"])


@pytest.mark.parametrize("chosen", [1, 2, 13, 20])
def test_the_link_graph(store: SQLiteStore, chosen: int) -> None:
    """It has every backlink and lipmaalink of the entries shown, and the chosen entry's certificate pool."""
    drawing = holdings.links(store, WHOLE, chosen, 20)
    links = {(int(one), int(other)) for one, other in drawing["links"]}
    expected = {(seq, seq - 1) for seq in range(2, 21)}
    assert expected | {(seq, lipmaa(seq)) for seq in range(2, 21) if has_lipmaalink(seq)} == links
    assert [str(seq) for seq in certificate_pool(chosen, 20)] == drawing["pool"]
    assert [str(seq) for seq in path(chosen, 1)] == drawing["path"]
    assert {tuple(map(int, pair)) for pair in drawing["pool_links"]} <= links
    assert drawing["path_held"]
    assert drawing["certified"]
    assert len(drawing["pool"]) == drawing["pool_held"]
    assert str(chosen) == drawing["entry"]["seq"]


def test_the_link_graph_of_a_log_with_gaps(store: SQLiteStore) -> None:
    """What is missing is not held, a path with gaps is not complete, an entry that is not here has no facts."""
    drawing = holdings.links(store, GAPPY, 31, 9)
    assert ("27", "35") == (drawing["low"], drawing["high"])
    assert {"state": "waiting", "payload": "complete", "variants": 1} == drawing["held"]["31"]
    assert "30" not in drawing["held"]
    assert not drawing["path_held"]
    assert "verified" == drawing["held"]["13"]["state"], "pool members outside of the window are told of, too"
    assert holdings.links(store, GAPPY, 30, 9)["entry"] is None


def test_a_path_without_the_upper_half(store: SQLiteStore) -> None:
    """Of a partly held log it is told which entries are verified, but not certified."""
    partly = build_log(9, seed=4)
    store.add([item for item in partly.items() if item[0].seq in (1, 4, 5, 6, 8, 9)])
    log = (partly.identity.public, 0)
    found = {seq: holdings.links(store, log, seq, 9) for seq in (1, 4, 5, 6, 7, 8, 9)}
    assert [1, 4, 5, 6, 8, 9] == [seq for seq, drawing in found.items() if drawing["path_held"]]
    assert [1, 4, 8, 9] == [seq for seq, drawing in found.items() if drawing["certified"]]
    assert (6, 4) == tuple(holdings.log(store, log)[name] for name in ("entries", "certified"))


def test_the_window_stays_inside(store: SQLiteStore) -> None:
    """Whatever is asked for, the window has numbers that there can be, and the chosen entry is one that may be held."""
    for chosen, low in ((0, None), (1, 0), (10**19, None), (5, 10**19)):
        drawing = holdings.links(store, WHOLE, chosen, 9, low)
        assert 1 <= int(drawing["low"]) <= int(drawing["high"]) <= MAX_U64
        assert 1 <= int(drawing["chosen"]) <= 20


def test_forks_and_their_proofs(store: SQLiteStore, tmp_path: Path) -> None:
    """Forked logs come with a proof; the file of it makes anybody who imports it know of the fork."""
    page = holdings.forks(store, 0, 10)
    (log,) = page["logs"]
    (fork,) = log["forks"]
    assert (1, "8", "two different entries have this number") == (page["count"], fork["position"], fork["why"])
    assert ["8", "8"] == [entry["seq"] for entry in fork["entries"]]
    (proof, *_) = store.fork_proofs(FORKED)
    assert proof.encode().hex() == fork["hex"]
    with SQLiteStore(tmp_path / "other.db") as other:
        report = Importer(other).run(io.BytesIO(holdings.proof_file(store, FORKED)))
        assert not report.refused
        assert 8 == other.survey().logs()[1][0].forked_at


def test_what_is_not_held(store: SQLiteStore) -> None:
    """A log of which nothing is here, or a proof of a fork that is none, is not held."""
    nowhere = (bytes(32), 1)
    for question in (holdings.log, holdings.proof_file):
        with pytest.raises(NotHeld):
            question(store, nowhere)
    with pytest.raises(NotHeld):
        holdings.proof_file(store, WHOLE)
    with pytest.raises(NotHeld):
        holdings.links(store, nowhere, 1, 5)
