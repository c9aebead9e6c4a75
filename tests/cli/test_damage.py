"""A byte of a stored payload, or entry, has changed on the disk: the commands do not give it away as genuine."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from culm import SQLiteStore
from culm.bamboo import Identity
from culm.store.exchange import Importer
from culm.testing import LogBuilder, build_log
from culm.wire.places import log_text
from tests.cli.test_intervals import serving
from tests.store.damage import flip, put

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.culm import Culm

LARGE = random.Random(4).randbytes(1_500_000).hex().encode()
LOG = LogBuilder(Identity(bytes(32)), 1)
for _payload in (b"first", LARGE, b"third", b"fourth"):
    LOG.append(_payload)
NAME = log_text(LOG.entries[0].log)


def fill(culm: Culm) -> Path:
    """Give a home the log; the file of its store."""
    with SQLiteStore(culm.home / "store.db") as store:
        store.add(LOG.items())
    return culm.home / "store.db"


def damaged(culm: Culm) -> list[int]:
    """The entries that wait for their payload to come again."""
    with SQLiteStore(culm.home / "store.db") as store:
        return sorted(stored.entry.seq for stored in store.damaged_payloads())


def forge(path: Path, seq: int) -> None:
    """Change the last bit of an entry's signature."""
    with closing(sqlite3.connect(path)) as connection:
        ((encoded,),) = connection.execute("SELECT encoded FROM entries WHERE seq = ?", (seq - 2**63,)).fetchall()
    put(path, "entries", "encoded", f"x'{encoded[:-1].hex()}{encoded[-1] ^ 1:02x}'", f"seq = {seq - 2**63}")


@pytest.mark.parametrize(("seq", "at"), [(1, 0), (2, 2_999_999), (2, 5)])
def test_showing_a_payload(culm: Culm, seq: int, at: int) -> None:
    """``culm show --payload`` ends with exit code 1 and never prints all bytes; the payload counts as missing."""
    flip(fill(culm), seq, at)
    shown = culm("show", f"{NAME}/{seq}", "--payload")

    assert 1 == shown.code
    assert f"payload of entry {seq} was damaged on the disk" in shown.err
    assert "counts as missing now" in shown.err
    assert len(shown.out) < LOG.entries[seq - 1].size
    assert [seq] == damaged(culm)
    again = culm("show", f"{NAME}/{seq}", "--payload")
    assert (1, "", True) == (again.code, again.out, "does not have the payload" in again.err)


@pytest.mark.parametrize("options", [[], ["--bundle"]])
def test_exporting(culm: Culm, tmp_path: Path, options: list[str]) -> None:
    """``culm export`` leaves out what is damaged, names each, ends with exit code 1, and the rest can be imported."""
    path = fill(culm)
    flip(path, 2, 1_500_000)
    flip(path, 4)
    forge(path, 3)
    exported = culm("export", "-o", tmp_path / "out", *options)

    assert 1 == exported.code
    for seq, words in (
        (2, "the payload of entry 2 was damaged"),
        (3, "have changed"),
        (4, "the payload of entry 4 was"),
    ):
        assert any(f"left out {NAME}/{seq}: " in line and words in line for line in exported.err.splitlines())
    assert [2, 4] == damaged(culm)
    with SQLiteStore(tmp_path / "copy.db") as copy, (tmp_path / "out").open("rb") as stream:
        report = Importer(copy).run(stream)
        assert [] == report.refused
        stored = {one.entry.seq: one.payload_complete for one in copy.entries(LOG.entries[0].log)}
    assert stored == ({1: True, 2: False, 4: False} if options else {1: True})


def test_export_as_json(culm: Culm, tmp_path: Path) -> None:
    """The list of what is damaged is in the JSON, too; it is empty where nothing is."""
    flip(fill(culm), 1)
    assert [f"{NAME}/1"] == culm("export", "-o", tmp_path / "one", "--bundle", "--json").json["damaged"]
    with SQLiteStore(culm.home / "store.db") as store:
        store.add(LOG.items())
    whole = culm("export", "-o", tmp_path / "two", "--bundle", "--json")
    assert (0, []) == (whole.code, whole.json["damaged"])


@pytest.mark.parametrize("options", [[], ["--bundle"]])
def test_exporting_once_more(culm: Culm, tmp_path: Path, options: list[str]) -> None:
    """A payload that was found damaged lacks in later exports, too: they say so and end with exit code 1.

    That ends when it has come again, or was deleted. An export of other logs is not concerned.
    """
    other = build_log(2)
    path = fill(culm)
    with SQLiteStore(path) as store:
        store.add(other.items())
    flip(path, 1)
    flip(path, 4)
    assert 1 == culm("verify").code
    again = culm("export", "-o", tmp_path / "again", *options, "--json")
    assert (1, [f"{NAME}/1", f"{NAME}/4"]) == (again.code, again.json["damaged"])
    assert f"left out {NAME}/1: its payload was damaged on the disk, and has not come again" in again.err
    assert 0 == culm("export", log_text(other.entries[0].log), "-o", tmp_path / "other", *options).code
    with SQLiteStore(path) as store:
        store.add(LOG.items()[:1])
    assert 0 == culm("forget", f"{NAME}/4").code
    assert 0 == culm("export", "-o", tmp_path / "whole", *options).code


def test_verifying(culm: Culm) -> None:
    """``culm verify`` names a damaged payload, which counts as missing from then on."""
    flip(fill(culm), 2, 9)
    report = culm("verify", "--json")

    assert (1, [f"{NAME}/2"], 3) == (report.code, report.json["damaged"], report.json["payloads"])
    assert [2] == damaged(culm)
    assert 0 == culm("verify").code


def test_a_home_that_cannot_be_written(culm: Culm, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the bytes cannot be marked, the command says so and refuses them all the same."""
    flip(fill(culm), 1)
    with SQLiteStore(culm.home / "store.db") as store, monkeypatch.context() as patch:
        patch.setitem(SQLiteStore.__init__.__kwdefaults__ or {}, "lock_timeout", 0.0)
        with closing(sqlite3.connect(store.path)) as other:
            other.execute("BEGIN IMMEDIATE")
            shown = culm("show", f"{NAME}/1", "--payload")

    assert (1, "") == (shown.code, shown.out)
    assert "stays as it is" in shown.err
    assert [] == damaged(culm)


@pytest.mark.slow
def test_fetching_it_again(culm: Culm) -> None:
    """``culm fetch`` checks what is held of the entries named, and gets what is damaged from the peer."""
    bob = culm.at("bob")
    bob("init")
    fill(culm)
    path = fill(bob)
    flip(path, 1)
    flip(path, 2, 2_000_000)
    with serving(culm.home) as url:
        assert bob("fetch", url, f"{NAME}/1..4").code == 0

    assert [] == damaged(bob)
    assert "first" == bob("show", f"{NAME}/1", "--payload").out
    assert 0 == bob("verify").code


def test_repairing(culm: Culm) -> None:
    """``culm doctor --repair`` finds what nobody reads; until the payloads have come again ``doctor`` tells of them."""
    path = fill(culm)
    assert 0 == culm("doctor", "--repair").code
    flip(path, 2, 1_234_567)
    flip(path, 3)
    assert 0 == culm("doctor").code
    repaired = culm("doctor", "--repair")

    assert 1 == repaired.code
    for seq in (2, 3):
        assert f"problem  payloads: the payload of {NAME}/{seq} was damaged" in repaired.out
    assert [2, 3] == damaged(culm)
    told = culm("doctor")
    assert (1, True) == (told.code, "2 payloads damaged on the disk and deleted" in told.out)
    with SQLiteStore(path) as store:
        store.add(LOG.items())
    assert 0 == culm("doctor", "--repair").code


def test_repairing_an_older_store(culm: Culm) -> None:
    """``culm doctor --repair`` gives large payloads of earlier versions their checksums."""
    with closing(sqlite3.connect(fill(culm))) as connection, connection:
        connection.execute("UPDATE payload_files SET sums = NULL")
    assert 0 == culm("doctor", "--repair").code
    with SQLiteStore(culm.home / "store.db") as store:
        assert [] == store.payloads_to_check(0, 9, without_sums=True)
