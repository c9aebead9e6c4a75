"""``culm serve --carry``: two homes that cannot reach each other meet at a third, which can read nothing."""

from __future__ import annotations

from typing import Any

import pytest

from culm.cli.nodeoptions import settings_of
from tests.cli.culm import Culm, serving


def test_meeting_at_a_carrier(culm: Culm) -> None:
    """What one member seals and leaves at the carrier, the other fetches and opens; the carrier's home has no byte."""
    bob, carrier = culm.at("bob"), culm.at("carrier")
    for home in (bob, carrier):
        home("init")
    reader, author = (home("identity", "show").out.strip() for home in (bob, culm))
    culm("append", 1, "--text", "a word between the two of us", "--for", reader)
    with serving(carrier.home, "--carry", "x") as url:
        assert culm("sync", url, "--clump", "x", "--json").json["entries_sent"] == 1
        assert bob("sync", url, "--clump", "x", "--json").json["entries_received"] == 1
    assert "a word between the two of us" == bob("show", f"{author}/1/1", "--payload").out
    assert "your key is not among them" in carrier("show", f"{author}/1/1", "--payload").err
    held = b"".join(file.read_bytes() for file in carrier.home.rglob("*") if file.is_file())
    assert b"age-encryption.org/v1" in held
    assert b"between the two" not in held


def test_a_quota_of_the_carrier(culm: Culm) -> None:
    """An author gets its quota at the carrier, and the entries that did not fit stay away."""
    carrier = culm.at("carrier")
    carrier("init")
    for _ in range(10):
        culm("append", 1, "--text", "x" * 10_000)
    with serving(carrier.home, "--carry", "x", "--author-quota", "50kB") as url:
        assert culm("sync", url, "--clump", "x").code == 0
    assert 1 <= carrier("logs", "--json").json[0]["entries"] <= 3


def test_the_settings_of_a_carrier(culm: Culm) -> None:
    """``--carry`` names the clump, asks for everything, and has quotas unless others are given."""
    from argparse import Namespace

    given: dict[str, Any] = {"home": str(culm.home), "config": None, "carry": "x", "limit": [], "peer": []}
    settings = settings_of(Namespace(**given))
    assert (b"x", True) == (settings.clump, settings["hoard"])
    assert (10**10, 10**9) == (settings["quota"], settings["author_quota"])
    (culm.home / "culm.toml").write_text('clump_hex = "aa"\nquota = "5MB"\n')
    settings = settings_of(Namespace(**given, author_quota="1MB"))
    assert (b"x", 5_000_000, 1_000_000) == (settings.clump, settings["quota"], settings["author_quota"])


@pytest.mark.parametrize("option", [("--clump", "y"), ("--clump-hex", "aa")])
def test_two_clumps(culm: Culm, option: tuple[str, str]) -> None:
    """``--carry`` names the clump, so another option that does is refused."""
    done = culm("serve", "--carry", "x", *option, "--listen", "culm://127.0.0.1:0")
    assert (2, "culm: --carry names the clump: leave out --clump and --clump-hex\n") == (done.code, done.err)
