"""``culm tail``: a log as text, and what comes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from culm import SQLiteStore
from culm.bamboo import Identity
from culm.cli.tail import news
from tests.store.below import database_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.culm import Culm

ME = Identity(bytes(32))


def test_the_newest_entries(culm: Culm) -> None:
    """The newest entries are shown in order, as many as asked for."""
    author = culm("identity", "show").out.strip()
    for number in range(1, 13):
        culm("append", 1, "--text", f"line {number}")
    assert culm("tail", f"{author}/1", "-n", 2).out == "    11  line 11\n    12  line 12\n"
    assert [line.split()[0] for line in culm("tail", f"{author}/1").out.splitlines()] == [*map(str, range(3, 13))]
    assert culm("tail", f"{author}/1", "-n", 0).out == ""
    shown = culm("tail", f"{author}/1", "-n", 1, "--json").json
    assert (shown["place"], shown["size"], shown["text"]) == (f"{author}/1/12", 7, "line 12")


def test_payloads_are_shown_safely(culm: Culm, tmp_path: Path) -> None:
    """What could change the screen is escaped; what is no text, is missing or is long is said to be so."""
    author = culm("identity", "show").out.strip()
    for payload in (b"a\x1b[31mred\nblue", b"\xff\xfe", b"gone", b"\xc3\xa9" * 501, "h\u00e9 \u202e!".encode()):
        (tmp_path / "file").write_bytes(payload)
        culm("append", 1, tmp_path / "file")
    culm("forget", f"{author}/1/3")
    assert [line[8:] for line in culm("tail", f"{author}/1").out.splitlines()] == [
        "a\\x1b[31mred\\nblue",
        "(2 B, complete)",
        "(4 B, forgotten)",
        "\u00e9" * 500 + " ...",
        "h\u00e9 \\u202e!",
    ]


def test_a_damaged_payload_is_not_shown(culm: Culm) -> None:
    """A payload whose bytes changed on the disk is not shown as if its author had written it."""
    author = culm("identity", "show").out.strip()
    culm("append", 1, "--text", "genuine")
    store = culm.home / "store.db"
    with SQLiteStore(store) as opened:
        database_of(opened).connection.execute("UPDATE payloads SET piece = x'67656e75696e66'")
    assert culm("tail", f"{author}/1").out == "     1  (7 B, complete)\n"


def test_a_log_that_is_not_held(culm: Culm) -> None:
    """A log without entries is an error, as with ``culm show``."""
    done = culm("tail", f"{bytes(32).hex()}/1")
    assert (done.code, done.out) == (1, "")


def test_following(tmp_path: Path) -> None:
    """Each entry of the log that comes is given once, in order, and none of another log."""
    with SQLiteStore(tmp_path / "store.db") as writer, SQLiteStore(tmp_path / "store.db", read_only=True) as reader:
        writer.append(ME, 1, [b"before"])
        waits = 0

        def wait() -> None:
            nonlocal waits
            waits += 1
            writer.append(ME, 2, [b"another log"])
            for number in range(waits):
                writer.append(ME, 1, [b"%d" % number])

        found = news(reader, (ME.public, 1), reader.latest(), wait)
        assert [next(found).entry.seq for _ in range(6)] == [2, 3, 4, 5, 6, 7]
        assert waits == 3
