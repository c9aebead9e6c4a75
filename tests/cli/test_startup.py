"""Commands start fast: each imports only what it needs."""

from __future__ import annotations

import gc
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import culm
from culm.bamboo import Identity, yamf_hash
from culm.bamboo.entryproof import EntryProof
from culm.cli.command import Commands, main
from culm.cli.table import COMMANDS, GROUPS, SECTIONS

_CALL = """
import sys
from culm.cli import main
try:
    main(sys.argv[1:])
except SystemExit:
    pass
print("\\n", *sys.modules, file=sys.stderr)
"""


def loaded_by(home: Path, *arguments: str) -> set[str]:
    """The modules that are imported when a command has ended."""
    call = [sys.executable, "-c", _CALL, "--home", str(home), *arguments]
    result = subprocess.run(call, capture_output=True, text=True, check=True)
    return set(result.stderr.splitlines()[-1].split())


@pytest.mark.parametrize("call", [["--version"], ["--help"], ["lgs"], ["identity", "--help"], ["spark", "nothing"]])
def test_the_table_is_enough_for_the_words(tmp_path: Path, call: list[str]) -> None:
    """The version, the help of a group and the answer to a mistyped command import no command and no store."""
    ours = {name for name in loaded_by(tmp_path, *call) if name.partition(".")[0] == "culm"}
    assert {"culm", "culm.cli", "culm.cli.command", "culm.cli.table", "culm.errors", "culm.native"} == ours


@pytest.mark.parametrize("call", [["init"], ["logs"], ["append", "0", "--text", "x"], ["show", f"{64 * '0'}/0"]])
def test_local_commands_load_no_node(tmp_path: Path, call: list[str]) -> None:
    """Commands that use only the store load no event loop, no TLS, no protocol, no numpy, and no terminal's tables."""
    with_home = loaded_by(tmp_path, "init")
    loaded = loaded_by(tmp_path, *call)
    heavy = {"asyncio", "ssl", "cryptography", "numpy", "rich.console", "culm.bushbaby", "culm.intervals", "culm.app"}
    assert "culm.store.sqlite" in with_home & loaded
    assert set() == heavy & loaded


def test_a_check_needs_little(tmp_path: Path) -> None:
    """``culm check`` loads neither home nor store, and of Python only what it cannot do without."""
    (identity, payload), file = (Identity(bytes(32)), b"text"), tmp_path / "proof"
    entry = identity.create_entry(
        log_id=1, seq=1, backlink=None, lipmaalink=None, size=len(payload), payload_hash=yamf_hash(payload)
    )
    file.write_bytes(EntryProof((entry,), 1).encode())
    loaded = loaded_by(tmp_path, "check", str(file))
    ours, threads = {"culm.store", "culm.node"}, {"asyncio", "concurrent.futures", "queue", "sqlite3", "threading"}
    slow = {"dataclasses", "inspect", "json", "logging", "nacl.signing", "pathlib", "secrets", "shutil", "textwrap"}
    assert "culm.bamboo.entryproof" in loaded
    assert (ours | threads | slow) & loaded == set()


def test_every_command_of_the_table_runs() -> None:
    """A module gives each of its commands in the table a function to run, and no others; each group has commands."""
    for module, commands in COMMANDS.items():
        leaves = set(commands) - GROUPS
        registered: set[str] = set()

        class Noted(Commands):
            def add(self, words: str, run):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
                registered.add(words)  # noqa: B023 - called before the loop goes on
                return super().add(words, run)

        import_module(f"culm.cli.{module}").register(Noted())
        assert leaves == registered, module
    assert {words.rpartition(" ")[0] for words in Commands().loaded() if " " in words} == GROUPS


def test_the_help_has_every_command_once(capsys: pytest.CaptureFixture[str]) -> None:
    """``culm --help`` arranges all commands of the first level, each in one place, and ``culm help`` is the same."""
    first = {words for commands in COMMANDS.values() for words in commands if " " not in words}
    shown = [name for names in SECTIONS.values() for name in names]
    assert sorted(shown) == sorted(first)
    for call in (["--help"], ["help"]):
        with pytest.raises(SystemExit) as ended:
            main(call)
        text = capsys.readouterr().out
        assert ended.value.code == 0
        listed = [line.split()[0] for line in text.partition("options:")[0].splitlines() if re.match("  [a-z]", line)]
        assert listed == shown


def test_help_for_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    """``culm help COMMAND`` is ``culm COMMAND --help``, also for a command of a group."""
    for words in (["append"], ["wire", "decode"]):
        texts = []
        for call in (["help", *words], [*words, "--help"]):
            with pytest.raises(SystemExit):
                main(call)
            texts.append(capsys.readouterr().out)
        assert texts[0] == texts[1]
        assert texts[0].startswith(f"usage: culm {' '.join(words)} ")
    with pytest.raises(SystemExit) as ended:
        main(["help", "apend"])
    assert ended.value.code == 2
    assert "did you mean append?" in capsys.readouterr().err


@pytest.mark.parametrize("enabled", [True, False])
def test_garbage_is_collected_after_the_imports_as_before(monkeypatch: pytest.MonkeyPatch, *, enabled: bool) -> None:
    """No garbage is collected while a command's module is imported, and as before afterwards, also after a failure."""
    during = []

    def fail(name: str) -> None:
        during.append((name, gc.isenabled()))
        raise ImportError(name)

    monkeypatch.setattr("culm.cli.command.import_module", fail)
    was_enabled = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        with pytest.raises(ImportError):
            Commands().root.parse_args(["logs"])
        after = gc.isenabled()
    finally:
        (gc.enable if was_enabled else gc.disable)()
    assert [("culm.cli.logs", False)] == during
    assert enabled == after


def test_names_of_culm_are_found_at_their_first_use() -> None:
    """Every name that ``culm`` promises is there, is listed by ``dir``, and an unknown one is an ``AttributeError``."""
    for name in culm.__all__:
        assert getattr(culm, name) is not None
        assert name in dir(culm)
    assert culm.Store is culm.SQLiteStore
    with pytest.raises(AttributeError, match="no attribute 'Shop'"):
        _ = culm.Shop
