"""``culm backup`` and ``culm restore``: consistent while others write, whole or not at all, checked, over nothing."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import tarfile
import threading
import tracemalloc
from typing import TYPE_CHECKING

import pytest

from culm import Identity, SQLiteStore
from culm.errors import StoreError
from culm.store.copying import copy_store
from culm.testing import build_log
from tests.cli.test_network import serving
from tests.store.below import database_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.culm import Culm


@pytest.fixture
def full(culm: Culm) -> Culm:
    """A home with entries, a large payload, a part of one, choices and a configuration."""
    with SQLiteStore(culm.home / "store.db") as store:
        log = build_log(30)
        store.add(log.items())
        me = Identity(b"m" * 32)
        store.append(me, 1, [bytes(1_100_000)])
        other = build_log(1, seed=5, payload_size=1_300_000)
        store.add([(other.entries[0], None)])
        sink = store.payload_sink(other.entries[0].place)
        sink.write(other.payloads[other.entries[0].hash][:1_200_000])
        sink.close()
    culm("follow", "a" * 43, "--clump", "x")
    (culm.home / "culm.toml").write_text('clump = "x"\n')
    return culm


@pytest.mark.parametrize("name", ["kept.tar", "kept.tar.gz", "kept"])
def test_there_and_back(full: Culm, name: str) -> None:
    """What is restored is what was backed up: entries, payloads, also begun ones, identities, choices, settings."""
    target = full.home.parent / name
    made = full("backup", target)
    assert made.code == 0, made
    assert "secret keys" in made.err
    assert target.stat().st_mode & 0o077 == 0
    again = full.at("again")
    result = again("restore", target)
    assert result.code == 0, result
    assert "backed up 32 entries" in made.out
    assert again("logs", "--json").json == full("logs", "--json").json
    for path in ("identities/default", "policy.json", "culm.toml"):
        assert (again.home / path).read_bytes() == (full.home / path).read_bytes()
    assert (again.home / "identities" / "default").stat().st_mode & 0o777 == 0o600
    held = [log for log in again("logs", "--json").json if log["entries"] != log["payloads"]]
    with SQLiteStore(again.home / "store.db") as store:
        (stored,) = store.entries((build_log(1, seed=5).identity.public, held[0]["log_id"]))
        assert stored.payload_held >= 1_000_000
    assert again("verify").code == again("doctor").code == 0
    assert sorted(path.name for path in full.home.parent.iterdir()) == sorted(["alice", "again", name])


def test_nothing_is_overwritten(full: Culm) -> None:
    """A backup is never written over anything, and nothing is restored where something is: exit code 2."""
    target = full.home.parent / "kept.tar"
    target.write_text("mine")
    assert full("backup", target).code == 2
    assert target.read_text() == "mine"
    assert full("backup", full.home.parent / "none" / "kept.tar").code == 2
    folder = full.home.parent / "kept"
    assert full("backup", folder).code == 0
    before = (full.home / "store.db").read_bytes()
    assert full("restore", folder).code == 2
    assert (full.home / "store.db").read_bytes() == before
    assert full.at("fresh")("backup", full.home.parent / "other").code == 2
    (full.home.parent / "empty").mkdir()
    assert full.at("empty")("restore", folder).code == 0


LISTS = {
    "manifest": "{",
    "deep": "[" * 100_000,
    "infinite": '{"culm-backup": 1, "files": {"store.db": {"size": 1e999, "blake2b": ""}}}',
}


@pytest.mark.parametrize(
    "harm",
    ["missing", "changed", "longer", "manifest", "version", "outside", "no backup", "signature", "cut", "text",
     "deep", "infinite"],
)  # fmt: skip
def test_damaged_backups(full: Culm, harm: str) -> None:
    """A backup that is not whole, or says what makes no sense, is refused in one line, and nothing is left behind."""
    folder = full.home.parent / "kept"
    assert full("backup", folder).code == 0
    manifest = json.loads((folder / "backup.json").read_text())
    payload = next((folder / "store.db-payloads").iterdir())
    source = folder
    if harm == "missing":
        payload.unlink()
    elif harm == "changed":
        payload.write_bytes(b"x" + payload.read_bytes()[1:])
    elif harm == "longer":
        payload.write_bytes(payload.read_bytes() + b"x")
    elif harm in LISTS:
        (folder / "backup.json").write_text(LISTS[harm])
    elif harm == "version":
        (folder / "backup.json").write_text(json.dumps({**manifest, "culm-backup": 9}))
    elif harm == "outside":
        manifest["files"]["../evil"] = manifest["files"]["culm.toml"]
        (folder / "backup.json").write_text(json.dumps(manifest))
    elif harm == "no backup":
        (folder / "backup.json").unlink()
    elif harm == "signature":
        with SQLiteStore(full.home / "store.db") as store:
            database_of(store).connection.execute("UPDATE entries SET hash = zeroblob(64) WHERE id = 3")
        source = full.home.parent / "second"
        assert full("backup", source).code == 0
    else:
        source = full.home.parent / "kept.tar"
        assert full("backup", source).code == 0
        data = source.read_bytes()
        source.write_bytes(data[: len(data) // 2] if harm == "cut" else b"no archive")
    result = full.at("again")("restore", source)
    assert (result.code, result.err.count("\n")) in ((1, 1), (2, 1)), result
    assert not (full.home.parent / "again").exists()
    assert not list(full.home.parent.glob(".*"))


def test_an_archive_is_only_read_where_it_says(full: Culm) -> None:
    """What an archive has beyond its list, links and names that lead elsewhere among it, is left alone."""
    target = full.home.parent / "kept.tar"
    assert full("backup", target).code == 0
    with tarfile.open(target, "a") as archive:
        link = tarfile.TarInfo("../evil")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
        archive.add(full.home / "culm.toml", "../other")
    assert full.at("again")("restore", target).code == 0
    assert not (full.home.parent / "evil").is_symlink()
    assert not (full.home.parent / "other").exists()


@pytest.mark.slow
def test_a_copy_while_others_write(tmp_path: Path) -> None:
    """Copies made while entries with large payloads are added and forgotten are each consistent, down to every hash."""
    path = tmp_path / "store.db"
    me = Identity(b"m" * 32)
    SQLiteStore(path).close()
    stop = threading.Event()

    def work() -> None:
        with SQLiteStore(path) as store:
            number = 0
            while not stop.is_set():
                number += 1
                entry = store.append(me, 1, [bytes([number % 251]) * 1_200_000])
                if number > 3:
                    store.forget(type(entry.place)(entry.author, 1, number - 3))

    writer = threading.Thread(target=work)
    writer.start()
    try:
        entries = -1
        for number in range(6):
            while True:
                with SQLiteStore(path, read_only=True) as store:
                    if sum(log.entries for log in store.logs()) > max(entries, 2):
                        break
            target = tmp_path / f"copy{number}.db"
            copied = copy_store(path, target)
            entries = copied.entries
            with SQLiteStore(target) as store:
                report = store.verify()
                assert report.problems == []
                assert report.verified == entries > 0
                assert len(database_of(store).folder.names()) == copied.payload_files
    finally:
        stop.set()
        writer.join()


def test_how_far_a_copy_is(full: Culm) -> None:
    """The bytes of payload files that were copied are told as they grow, and at the end the size of everything."""
    told: list[int] = []
    target = full.home.parent / "copy.db"
    copied = copy_store(full.home / "store.db", target, told.append)
    assert told == sorted(set(told))
    assert told[0] <= 1024 * 1024 < told[-1] == 1_100_000 + 1_200_000
    assert copied.size == told[-1] + target.stat().st_size


def test_a_copy_of_what_is_not_whole(full: Culm) -> None:
    """A store that lacks a payload file cannot be backed up: that is said, and no half backup is left."""
    next((full.home / "store.db-payloads").iterdir()).unlink()
    with pytest.raises(StoreError, match="missing"):
        copy_store(full.home / "store.db", full.home.parent / "copy.db")
    result = full("backup", full.home.parent / "kept.tar")
    assert (result.code, "doctor" in result.err) == (1, True)
    assert not list(full.home.parent.glob("*kept*"))


def test_a_backup_of_a_running_node(full: Culm) -> None:
    """While a node serves and takes entries, a backup is made that verifies."""
    bob = full.at("bob")
    bob("init")
    with SQLiteStore(bob.home / "store.db") as store:
        store.add(build_log(3000, seed=77, payload_size=100).items(), authenticated=True)
    with serving(full.home) as (url, _):
        syncing = threading.Thread(target=bob, args=("sync", url, "--clump", "x"))
        syncing.start()
        copied = copy_store(full.home / "store.db", full.home.parent / "copy.db")
        syncing.join()
    with SQLiteStore(full.home.parent / "copy.db") as store:
        assert store.verify().problems == []
    assert copied.entries >= 31


# -- backups that somebody else made ----------------------------------------------------------------------------------


def pack(target: Path, *members: tuple[str, bytes] | tarfile.TarInfo) -> Path:
    """An archive of files, and of other things."""
    with tarfile.open(target, "w:gz", compresslevel=1) as archive:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member)
            else:
                info = tarfile.TarInfo(member[0])
                info.size = len(member[1])
                archive.addfile(info, io.BytesIO(member[1]))
    return target


def refused(full: Culm, source: object) -> str:
    """The one line with which a restore refuses a backup; nothing is left behind."""
    result = full.at("again")("restore", source)
    assert (result.code, result.err.count("\n")) in ((1, 1), (2, 1)), result
    assert not (full.home.parent / "again").exists()
    return result.err


def test_a_link_in_an_archive(full: Culm, tmp_path: Path) -> None:
    """A link that stands in the archive where a file belongs is no file, wherever it leads."""
    files = {"store.db": {"size": 1, "blake2b": "0" * 64}}
    link = tarfile.TarInfo("store.db")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    manifest = json.dumps({"culm-backup": 1, "files": files}).encode()
    assert "store.db is missing" in refused(full, pack(tmp_path / "links.tgz", ("backup.json", manifest), link))
    link.name = "backup.json"
    assert "not a backup" in refused(full, pack(tmp_path / "link.tgz", link))


def test_links_in_a_folder(full: Culm, tmp_path: Path) -> None:
    """A folder with links in it is refused, because they could lead to files of somebody else."""
    kept = tmp_path / "kept"
    assert full("backup", kept).code == 0
    (kept / "culm.toml").rename(tmp_path / "elsewhere")
    (kept / "culm.toml").symlink_to(tmp_path / "elsewhere")
    assert "culm.toml is a link" in refused(full, kept)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["objects", "long", *(pytest.param(k, marks=pytest.mark.long) for k in ("texts", "lists"))]
)
def test_a_small_archive_with_a_huge_manifest(full: Culm, tmp_path: Path, kind: str) -> None:
    """A small archive that becomes a manifest of 45 MB is refused without making objects of it."""
    kinds = {"objects": b'"a%s":{},', "texts": b'"a%s":"b",', "lists": b"[[]],      %s", "long": b" " * 14 + b"%s"}
    thousand = b"".join(kinds[kind] % (b"@@@@%03d" % number) for number in range(1000))
    items = b"".join(thousand.replace(b"@@@@", b"%d" % at) for at in range(1000, 1000 + 45_000_000 // len(thousand)))
    manifest = b'{"culm-backup": 1, "files": {' + items + b'"z": {}}}'
    source = pack(tmp_path / "huge.tgz", ("backup.json", manifest * (2 if kind == "long" else 1)))
    del items, manifest
    tracemalloc.start()
    try:
        assert "backup.json is damaged" in refused(full, source)
        assert tracemalloc.get_traced_memory()[1] < 250_000_000
    finally:
        tracemalloc.stop()


def test_pipes_that_nobody_writes_to(full: Culm, tmp_path: Path) -> None:
    """A named pipe in place of a backup, a file in it, an import or a configuration is refused, not waited for."""
    os.mkfifo(tmp_path / "pipe")
    assert "named pipe" in refused(full, tmp_path / "pipe")
    assert full("backup", tmp_path / "kept").code == 0
    (tmp_path / "kept" / "store.db").unlink()
    os.mkfifo(tmp_path / "kept" / "store.db")
    assert "store.db is missing" in refused(full, tmp_path / "kept")
    for command in (["import", tmp_path / "pipe"], ["--config", tmp_path / "pipe", "serve"]):
        result = full(*command)
        assert (result.code, result.err.count("\n")) == (2, 1), result
        assert "named pipe" in result.err


def test_pipes_of_the_shell(full: Culm) -> None:
    """A configuration can come from ``<(command)``, whose pipe has a writer already."""
    reading, writing = os.pipe()
    try:
        os.write(writing, b'clump = "observatory"\n')
        os.close(writing)
        result = full("--config", f"/dev/fd/{reading}", "config")
        assert result.code == 0, result
        assert "observatory" in result.out
    finally:
        os.close(reading)


def test_backups_through_pipes(full: Culm, tmp_path: Path) -> None:
    """``backup -`` writes an archive to stdout and ``restore -`` reads one from stdin; no file is named ``-``."""
    culm = [sys.executable, "-m", "culm.cli", "--home"]
    made = subprocess.run([*culm, full.home, "backup", "-"], capture_output=True, check=True, cwd=tmp_path)
    assert re.search(rb"^backed up .* to stdout$", made.stderr, re.MULTILINE)
    again = tmp_path / "again"
    restored = subprocess.run([*culm, again, "restore", "-"], input=made.stdout, capture_output=True, check=True)
    assert b"verified all of it" in restored.stdout
    export = [*culm, str(again), "identity", "export", "default", "-o", "-"]
    secret = subprocess.run(export, capture_output=True, check=True, cwd=tmp_path)
    assert secret.stdout.startswith(b"{")
    assert not (tmp_path / "-").exists()
