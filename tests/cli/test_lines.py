"""``culm append LOG_ID --lines``: an entry for each line."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING

import pytest

from culm import SQLiteStore
from culm.cli import lines
from culm.cli.lines import line_groups
from culm.errors import ConfigError, StoreFull
from culm.node.home import Home
from culm.store import append as store_append
from tests.cli.culm import start

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.culm import Culm


def payloads(home: Path) -> list[bytes]:
    """The payloads of the home's log 1."""
    with SQLiteStore(home / "store.db", read_only=True) as store:
        (log,) = store.logs()
        return [b"".join(store.payload(stored)) for stored in store.entries(log.log)]


class Pipe(io.BytesIO):
    """Standard input that gives what was written by each write, as a pipe does."""

    def __init__(self, *written: bytes) -> None:
        super().__init__()
        self._written = list(written)

    def read1(self, _: int | None = -1) -> bytes:
        """What the next write brought; nothing at the end."""
        return self._written.pop(0) if self._written else b""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", []),
        (b"\n", [b""]),
        (b"one\ntwo\n", [b"one", b"two"]),
        (b"one\n\ntwo", [b"one", b"", b"two"]),
        (b"\r\nend \t\x00\xff", [b"\r", b"end \t\x00\xff"]),
    ],
)
def test_lines(culm: Culm, tmp_path: Path, text: bytes, expected: list[bytes]) -> None:
    """Each line is the payload of an entry, byte for byte, without its newline; a last line needs none."""
    (tmp_path / "file").write_bytes(text)
    done = culm("append", 1, "--lines", tmp_path / "file")
    author = culm("identity", "show").out.strip()
    if expected:
        assert (done.code, done.out) == (0, f"{author}/1/1..{len(expected)}\n")
        assert expected == payloads(culm.home)
    else:
        assert (done.code, done.out, done.err) == (0, "", "there was no line, so nothing was appended\n")


def test_the_file_may_stand_before_the_option(culm: Culm, tmp_path: Path) -> None:
    """``append 1 FILE --lines`` and ``append 1 --lines FILE`` mean the same, and a second file is refused."""
    (tmp_path / "file").write_bytes(b"one\n")
    assert culm("append", 1, tmp_path / "file", "--lines").out.endswith("/1/1..1\n")
    assert culm("append", 1, "--lines", tmp_path / "file").out.endswith("/1/2..2\n")
    assert culm("append", 1, "--lines", tmp_path / "file", tmp_path / "file").code == 2


def test_a_pipe(culm: Culm, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a pipe each write is stored when it comes; with ``--json`` each group is reported once it is on the disk."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(Pipe(b"a\nb\nc", b"c", b"\n", b"d")))
    done = culm("append", 1, "--lines", "--json", "-")
    author = culm("identity", "show").out.strip()
    summary = {"author": author, "log_id": 1, "first": 1, "last": 4, "entries": 4, "payload_bytes": 5}
    assert done.json == {"type": "summary"} | summary
    assert done.out.splitlines()[:-1] == [
        '{"type": "progress", "first": 1, "last": 2, "entries": 2}',
        '{"type": "progress", "first": 3, "last": 3, "entries": 3}',
        '{"type": "progress", "first": 4, "last": 4, "entries": 4}',
    ]
    assert [b"a", b"b", b"cc", b"d"] == payloads(culm.home)


def test_groups_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group has at most so many lines, or so many bytes and the line that reaches them."""
    monkeypatch.setattr(store_append, "GROUP_ENTRIES", 3)
    monkeypatch.setattr(store_append, "GROUP_BYTES", 5)
    assert [[b"a", b"b", b"c"], [b"d"]] == list(line_groups(io.BytesIO(b"a\nb\nc\nd\n")))
    assert [[b"aaaaa"], [b"b", b"cccc"], [b"d"]] == list(line_groups(io.BytesIO(b"aaaaa\nb\ncccc\nd")))


@pytest.mark.parametrize("text", [b"ok\n12345", b"ok\n12345\nmore\n"])
def test_a_line_that_is_too_long(monkeypatch: pytest.MonkeyPatch, text: bytes) -> None:
    """A line longer than the limit is refused by its number, with or without its newline."""
    monkeypatch.setattr(lines, "MAX_LINE", 4)
    with pytest.raises(ConfigError, match="line 2 is longer than"):
        list(line_groups(io.BytesIO(text)))


def test_an_endless_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line without an end is refused once it is too long, not when memory is full."""
    monkeypatch.setattr(lines, "MAX_LINE", 4)
    pipe = Pipe(b"ok\n", *[b"xxx"] * 100)
    groups = line_groups(pipe)
    assert next(groups) == [b"ok"]
    with pytest.raises(ConfigError, match="line 2 is longer than"):
        next(groups)
    assert pipe.read1() == b"xxx"


def test_an_error_says_how_far_it_came(culm: Culm, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a group cannot be stored, those before it are kept, and the next line to append is named."""
    real = SQLiteStore.append_each

    def full(store: SQLiteStore, drafts: list[store_append.Draft]) -> object:
        if drafts[0].payloads == [b"c"]:
            raise StoreFull("the disk is full; nothing was changed")
        return real(store, drafts)

    monkeypatch.setattr(SQLiteStore, "append_each", full)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(Pipe(b"a\nb\n", b"c\n", b"d\n")))
    done = culm("append", 1, "--lines")
    assert done.code == 1
    assert done.err == (
        "the log has the input up to line 2, which is entry 2; go on with line 3\n"
        "culm: the disk is full; nothing was changed\n"
    )
    assert [b"a", b"b"] == payloads(culm.home)


def test_a_log_that_has_ended(culm: Culm, monkeypatch: pytest.MonkeyPatch) -> None:
    """What ``append`` refuses is refused for lines in the same words."""
    culm("append", 1, "--end", "--text", "last")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(Pipe(b"a\n")))
    done = culm("append", 1, "--lines")
    assert (done.code, done.out) == (1, "")
    assert "the log ended with entry 1" in done.err


def test_entries_of_others_in_between(culm: Culm, monkeypatch: pytest.MonkeyPatch) -> None:
    """If another program appends meanwhile, the range that is printed has more entries than lines, and that is said."""

    class Busy(Pipe):
        def read1(self, size: int | None = -1) -> bytes:
            chunk = super().read1(size)
            if chunk == b"b\n":
                with Home(culm.home).store() as store:
                    store.append(Home(culm.home).identity(None), 1, [b"other"])
            return chunk

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(Busy(b"a\n", b"b\n")))
    done = culm("append", 1, "--lines")
    assert done.out.endswith("/1/1..3\n")
    assert done.err == "1 entry in between came from another program\n"


@pytest.mark.parametrize("other", [["--text", "x"], ["--end"]])
def test_what_does_not_go_together(culm: Culm, other: list[str]) -> None:
    """``--lines`` is refused with ``--text`` and with ``--end``."""
    done = culm("append", 1, "--lines", *other)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "--lines takes a FILE or stdin" in done.err


@pytest.mark.subprocess
def test_a_kill_keeps_whole_groups(culm: Culm) -> None:
    """After SIGKILL the log has the lines that were reported, from the first on, and no part of a later group."""
    with start(culm.home, "append", 1, "--lines", "--json", stdin=-1) as process:
        assert process.stdin
        assert process.stdout
        for number in range(3):
            process.stdin.write(f"line {number}\n")
            process.stdin.flush()
            assert f'"last": {number + 1},' in process.stdout.readline()
        process.kill()
    assert [b"line 0", b"line 1", b"line 2"] == payloads(culm.home)
