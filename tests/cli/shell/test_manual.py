"""``culm manual``: the page for ``man``, made from the parsers."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

import culm as package
from culm.cli.command import Commands
from culm.cli.shell.described import name, usage, value
from culm.cli.shell.manual import page

if TYPE_CHECKING:
    from tests.cli.culm import Culm


def plain(roff: str) -> str:
    """The words of a page, without macros and escapes, and with single spaces."""
    text = re.sub(r"^\.(\w\w?) ?", "", roff, flags=re.MULTILINE)
    text = text.replace(r"\&", "").replace(r"\-", "-").replace(r"\(dq", '"').replace(r"\e", "\\")
    return " ".join(text.split())


def test_it_has_everything() -> None:
    """Every command, its usage, and every argument with its meaning is on the page, as the parsers have them."""
    text = plain(page("2026-01-02"))
    for words, parser in Commands().loaded().items():
        assert f"culm {words} " in text
        assert usage(parser) in text
        for action in parser._actions:
            assert f" {name(action)} " in text or action.dest == "help"
    for part in (
        "NAME culm - replicate, verify",
        "EXIT STATUS 0 Done",
        "3 The peer",
        "CULM_HOME The",
        "HOME/culm.toml",
    ):
        assert part in text


def test_it_is_sound() -> None:
    """Groff formats the page without a warning, and so do others: no line of text is taken for a macro."""
    roff = page("2026-01-02")
    assert roff.startswith(f'.TH CULM 1 "2026-01-02" "culm {package.__version__}"\n')
    macros = {line.split()[0] for line in roff.splitlines() if line.startswith((".", "'"))}
    assert macros == {".TH", ".SH", ".SS", ".PP", ".TP", ".B"}
    assert roff.isascii()
    assert "\n\n" not in roff


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not there")
def test_it_can_be_shown() -> None:
    """Groff formats the page without a warning, and shows what stands in it."""
    call = ["groff", "-man", "-ww", "-Tascii", "-P-cbou"]
    shown = subprocess.run(call, input=page("2026-01-02"), capture_output=True, text=True, check=True)
    assert shown.stderr == ""
    assert "\n   culm identity new\n" in shown.stdout
    assert "--no-identity" in shown.stdout


def test_builds_can_be_repeated(culm: Culm, monkeypatch: pytest.MonkeyPatch) -> None:
    """The date is that of today, or of the build that a packager repeats."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    assert culm("manual").out == page("1970-01-02")
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    assert re.match(r'\.TH CULM 1 "20\d\d-\d\d-\d\d"', culm("manual").out)


def test_what_stands_for_values() -> None:
    """An argument is shown by its metavar, else by its choices, else by its name; groups of two words together."""
    parser = Commands().root
    two = parser.add_argument("--two", nargs=2, metavar=("A", "B"))
    assert (name(two), value(parser.add_argument("--kind", choices=("x", "y")))) == ("--two A B", "x|y")
    assert (name(parser.add_argument("--plain")), name(parser.add_argument("-f", action="store_true"))) == (
        "--plain PLAIN",
        "-f",
    )
