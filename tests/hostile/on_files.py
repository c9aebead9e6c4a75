"""Files and folders that somebody else made, and commands that are pointed at them.

No node takes part: each strike runs commands of a home of its own. What they cost is measured here, because the trial
measures the node.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from culm.bamboo import Identity
from culm.bamboo.entryproof import MAGIC, EntryProof
from culm.node.home import Home
from culm.sealing.header import tag_of
from culm.sealing.mark import FIRST_LINE
from culm.store import SQLiteStore
from culm.testing.builders import LogBuilder, build_log
from culm.wire.invitation import Invitation
from culm.wire.places import author_text
from tests.hostile.attack import Attack, Field

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST_SECONDS, _MOST_MB = 20.0, 400.0  # CPU of one command, imports included, and the most memory that it held
_PATIENCE, _LOOK_SECONDS = 50.0, 0.01
_MANIFEST_BYTES = 45_000_000
_LARGE_BYTES = 300_000_000


def _run(folder: Path, *arguments: str) -> str:
    """Run a command: ``refused`` if it ends with an error of one line and stays within its limits; else what it did."""
    with (folder / "said").open("w+") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "culm.cli", "--home", str(folder / "home"), *arguments],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
        )
        deadline, memory = time.monotonic() + _PATIENCE, 0.0
        while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
            memory = _peak(process.pid) or memory
            if time.monotonic() > deadline:
                process.kill()
            time.sleep(_LOOK_SECONDS)
        _, status, usage = ended
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        lines = said.read().splitlines()
    seconds = usage.ru_utime + usage.ru_stime
    is_refused = process.returncode in (1, 2) and len(lines) == 1
    if is_refused and seconds <= _MOST_SECONDS and memory <= _MOST_MB:
        return "refused"
    return f"{arguments[0]} ended with code {process.returncode}, {seconds:.0f} s, {memory:.0f} MB: {lines[-1:]}"


def _peak(pid: int) -> float:
    """The most MB that a process has held so far; 0 if it is over. ``wait4`` counts those of its parent, too."""
    found = re.search(r"VmHWM:\s*(\d+)", Path(f"/proc/{pid}/status").read_text(encoding="ascii"))
    return int(found[1]) * 1024 / 1e6 if found else 0.0


async def _refused(prepare: Callable[[Path], list[list[str]]]) -> str:
    """What the commands do that ``prepare`` names, in a folder that it has filled."""

    def work() -> str:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            return "; ".join(dict.fromkeys(_run(folder, *command) for command in prepare(folder)))

    return await asyncio.to_thread(work)


def _pack(target: Path, *members: tuple[tarfile.TarInfo, bytes]) -> None:
    with tarfile.open(target, "w:gz") as archive:
        for info, content in members:
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


def _a_store(place: Path) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    with SQLiteStore(place) as store:
        store.add(build_log(5).items())
    return place


async def triggers(_: Field) -> str:
    """Gives a store with a trigger that makes every entry verified."""

    def prepare(folder: Path) -> list[list[str]]:
        store = _a_store(folder / "home" / "store.db")
        with closing(sqlite3.connect(store)) as connection, connection:
            connection.execute(
                "CREATE TRIGGER believes AFTER INSERT ON entries BEGIN UPDATE entries SET state = 2; END"
            )
        return [["verify"], ["export", "out.bundle"], ["spark", "verify", "--input", str(store), "--output", "checked"]]

    return await _refused(prepare)


async def links(_: Field) -> str:
    """Gives an archive with a link in place of the store."""

    def prepare(folder: Path) -> list[list[str]]:
        files = {"store.db": {"size": 1, "blake2b": "0" * 64}}
        link = tarfile.TarInfo("store.db")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        manifest = json.dumps({"culm-backup": 1, "files": files}).encode()
        _pack(folder / "links.tgz", (tarfile.TarInfo("backup.json"), manifest), (link, b""))
        return [["restore", "links.tgz"]]

    return await _refused(prepare)


async def huge_manifests(_: Field) -> str:
    """Gives an archive of some kilobytes whose list of files is 45 MB."""

    def prepare(folder: Path) -> list[list[str]]:
        item = b'"a%07d":{},'
        items = b"".join(item % number for number in range(_MANIFEST_BYTES // len(item % 0)))
        manifest = b'{"culm-backup": 1, "files": {' + items + b'"z": {}}}'
        _pack(folder / "huge.tgz", (tarfile.TarInfo("backup.json"), manifest))
        return [["restore", "huge.tgz"]]

    return await _refused(prepare)


async def pipes(_: Field) -> str:
    """Puts a pipe that nobody writes to where a backup, an import, an input of Spark or a configuration is."""

    def prepare(folder: Path) -> list[list[str]]:
        os.mkfifo(folder / "pipe")
        _a_store(folder / "home" / "store.db")
        return [
            ["import", "pipe"],
            ["--config", "pipe", "serve"],
            ["spark", "verify", "--input", "pipe", "--output", "checked"],
        ]

    return await _refused(prepare)


async def other_types(_: Field) -> str:
    """Gives Parquet files whose columns have other types than entries have."""

    def prepare(folder: Path) -> list[list[str]]:
        encoded = pa.array([b"a", b"b"])
        tables = {
            "numbers": {"encoded": pa.array([1, 2])},
            "lists": {"encoded": pa.array([[1], [2]])},
            "texts": {"encoded": encoded, "file": pa.array(["f", "f"]), "offset": pa.array(["x", "y"])},
        }
        for name, columns in tables.items():
            pq.write_table(pa.table(columns), folder / f"{name}.parquet")
        return [["spark", "verify", "--input", f"{name}.parquet", "--output", f"{name}.checked"] for name in tables]

    return await _refused(prepare)


async def proofs(_: Field) -> str:
    """Gives proofs that claim the largest numbers, and payloads of 300 MB that the author signed, or did not."""

    def prepare(folder: Path) -> list[list[str]]:
        log, liar = build_log(5), LogBuilder(Identity(bytes(32)))
        liar.entries.append(liar.make(1, b"", size=_LARGE_BYTES))
        short = EntryProof(tuple(log.entries[seq - 1] for seq in (1, 4, 5)), 4, has_payload=True).encode()
        files = {
            "numbers": MAGIC + bytes([4]) + bytes(32) + b"\xff" * 9 + b"\xff" * 8 + b"\xfe" + b"\x01" + bytes(200_000),
            "longer": short,
            "signed": EntryProof((liar.entries[0],), 1, has_payload=True).encode(),
        }
        for name, head in files.items():
            with (folder / name).open("wb") as file:
                file.write(head)
                file.truncate(len(head) + _LARGE_BYTES)
        return [["check", name] for name in files]

    return await _refused(prepare)


async def invitations(_: Field) -> str:
    """Gives invitations that are far too long, are cut off, or have another checksum."""

    def prepare(_: Path) -> list[list[str]]:
        right = Invitation(bytes(range(32)), (("127.0.0.1", 1),), clump=b"x" * 255).url()
        wrong = right[:-1] + ("0" if right[-1] != "0" else "1")
        return [["join", text] for text in (right[:8] + "0" * 100_000, right[:-40], wrong, right + right)]

    return await _refused(prepare)


async def sealed_payloads(_: Field) -> str:
    """Publishes payloads whose headers never end, name 1,000 readers, or demand the work of a passphrase."""

    def prepare(folder: Path) -> list[list[str]]:
        me, author = _a_home(folder), Identity(bytes(range(32)))
        stanza = f"-> ssh-ed25519 {tag_of(me.public)} {'A' * 43}\n{'A' * 43}\n".encode()
        end = b"--- " + b"A" * 43 + b"\n" + bytes(1000)
        payloads = [
            FIRST_LINE + stanza * (16_000_000 // len(stanza)),
            FIRST_LINE + stanza * 10_000 + end,
            FIRST_LINE + stanza * 1000 + end,
            FIRST_LINE + b"-> scrypt " + b"A" * 22 + b" 40\n" + b"A" * 43 + b"\n" + end,
            FIRST_LINE + b"-> " + b"x" * 16_000_000,
        ]
        with SQLiteStore(folder / "home" / "store.db") as store:
            for payload in payloads:
                store.append(author, 1, [payload])
        place = f"{author_text(author.public)}/1"
        return [["show", f"{place}/{seq}", "--payload"] for seq in range(1, len(payloads) + 1)]

    return await _refused(prepare)


async def lists_of_readers(_: Field) -> str:
    """Publishes lists of readers of 64 MB, of 2,000 readers, and of one key again and again."""

    def prepare(folder: Path) -> list[list[str]]:
        _a_home(folder)
        author, head = Identity(bytes(range(32))), b"culm-group 1\n"
        many = (author_text(Identity(number.to_bytes(32)).public).encode() + b"\n" for number in range(2000))
        lists = [
            head + bytes(64_000_000),
            head + b"".join(many),
            head + (author_text(author.public) + "\n").encode() * 9,
        ]
        with SQLiteStore(folder / "home" / "store.db") as store:
            for log, payload in enumerate(lists):
                store.append(author, log, [payload])
        place = author_text(author.public)
        return [["append", "1", "--text", "x", "--for", f"{place}/{log}"] for log in range(len(lists))]

    return await _refused(prepare)


def _a_home(folder: Path) -> Identity:
    """A home with an identity, in which others' entries are put."""
    me, home = Identity(b"m" * 32), Home(folder / "home")
    home.create()
    home.add_identity("default", me, None)
    return me


ATTACKS = [
    Attack("file", "store with triggers", triggers, None, gets="^refused$", is_quick=False),
    Attack("file", "archive with links", links, None, gets="^refused$"),
    Attack("file", "archive with a huge list", huge_manifests, None, gets="^refused$", is_quick=False),
    Attack("file", "pipes", pipes, None, gets="^refused$", is_quick=False),
    Attack("file", "Parquet of other types", other_types, None, gets="^refused$", is_quick=False),
    Attack("file", "proofs", proofs, None, gets="^refused$", is_quick=False),
    Attack("file", "invitations", invitations, None, gets="^refused$", is_quick=False),
    Attack("file", "sealed payloads", sealed_payloads, None, gets="^refused$", is_quick=False),
    Attack("file", "lists of readers", lists_of_readers, None, gets="^refused$", is_quick=False),
]
