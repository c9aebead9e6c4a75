"""Calls that are wrong, or only look so: one short line, which says what to do, and exit code 2."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.culm import Culm

LOG = "0" * 43 + "/1"
NOWHERE = "intervals://127.0.0.1:1"
SIZE = "'8Mx' is not a size; expected a number of bytes, or a number with kB, MB, GB, KiB, MiB or GiB"
COLUMNS = 120


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("syncc",), "there is no command 'syncc'; did you mean sync? (see culm --help)"),
        (("frobnicate",), "there is no command 'frobnicate' (see culm --help)"),
        (("wire", "chekc"), "there is no command 'chekc'; did you mean check? (see culm wire --help)"),
        (("sync", NOWHERE, "--upload", "8MB"), "unknown option '--upload' (see culm sync --help)"),
        (("sync", NOWHERE, LOG, "--uplaod", LOG), "unknown option '--uplaod' (see culm sync --help)"),
        (("show", LOG, "x", "y"), "unknown argument 'x' (see culm show --help)"),
        (("sync", NOWHERE, "--clump", "a", "x"), "'x' is not AUTHOR/LOG"),
        (("export", "a.bundle"), "'a.bundle' is not AUTHOR/LOG; to write to a file: -o a.bundle"),
        (
            ("sync", "bushbaby://127.0.0.1:1", LOG, "--clump", "a"),
            "AUTHOR/LOG works with intervals:// and proposals:// peers only, not with bushbaby://;"  # noqa: ISC004
            " here it is --interest AUTHOR/LOG",
        ),
        (
            ("fetch", "bushbaby://a:1", "x"),
            "'bushbaby://a:1': bushbaby cannot do this; expected culm://KEY@HOST:PORT or intervals://HOST:PORT"  # noqa: ISC004
            " or wss://HOST:PORT",
        ),
        (("sync", "culm:aeaczlavmn5"), "this is an invitation, and not an address; take it with: culm join URL"),
        (("halp",), "there is no command 'halp'; did you mean help? (see culm --help)"),
        (("sync", "intervals://a:99999"), "'intervals://a:99999' is not an address; expected intervals://HOST:PORT"),
        (("fetch", NOWHERE, "a/1"), "'a/1' is not an entry; expected AUTHOR/LOG/SEQ or AUTHOR/LOG/SEQ..SEQ"),
        (
            ("serve", "--limit", "max_rate=8Mx"),
            f"limit max_rate: {SIZE}",
        ),
        (("serve", "--limit", "max_rats=8"), "there is no limit 'max_rats'; did you mean max_rate?"),
        (("serve", "--limit", "x"), "there is no limit 'x'; culm config lists them"),
    ],
)
def test_one_short_line(culm: Culm, arguments: tuple[str, ...], expected: str) -> None:
    """A wrong call is one line that fits on a terminal, and names the help of the command that was called."""
    assert (2, "", f"culm: {expected}\n") == culm(*arguments)
    assert len(expected) < COLUMNS


@pytest.mark.parametrize("place", range(4))
def test_options_stand_anywhere(culm: Culm, place: int) -> None:
    """The names of logs may stand behind options, too: the call is understood, and nobody listens there."""
    words = ["sync", NOWHERE, LOG, LOG]
    words[1 + place : 1 + place] = ["--clump", "a"]
    assert (3, "", f"culm: cannot reach {NOWHERE}: Connection refused\n") == culm(*words)
