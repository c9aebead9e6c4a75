"""``culm serve --http``, as its user calls it."""

from __future__ import annotations

import json
import urllib.request
from typing import TYPE_CHECKING

import pytest

from tests.cli.culm import Culm, start
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from pathlib import Path

TOKEN = "a-long-enough-token"


@pytest.fixture(autouse=True)
def no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the environment happens to hold is not looked at."""
    monkeypatch.delenv("CULM_HTTP_TOKEN", raising=False)


def test_a_page_is_served(culm: Culm) -> None:
    """It is told where, shows what is held, and ends with the node; nothing else needs to be served."""
    culm("append", 1, "--text", "hello")
    with start(culm.home, "serve", "--http", "127.0.0.1:0") as serving:
        assert serving.stdout is not None
        name, url = serving.stdout.readline().split()
        with urllib.request.urlopen(url + "api/overview") as answer:
            overview = json.load(answer)
        serving.terminate()
        assert 0 == serving.wait(PATIENCE)
    assert ("status", 1, []) == (name, overview["totals"]["entries"], overview["listeners"])


def test_a_token_from_a_file_or_the_environment(culm: Culm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The token stands in a file that others cannot read, or in the environment; never in the call."""
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    file.chmod(0o600)
    monkeypatch.setenv("CULM_HTTP_TOKEN", "another-long-enough-token")
    with start(culm.home, "serve", "--http", "127.0.0.1:0", "--http-token-file", file) as serving:
        assert serving.stdout is not None
        url = serving.stdout.readline().split()[1]
        request = urllib.request.Request(url + "metrics", headers={"Authorization": f"Bearer {TOKEN}"})
        with urllib.request.urlopen(request) as answer:
            assert b"culm_info" in answer.read()
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(url + "metrics")
        serving.terminate()
    file.chmod(0o644)
    result = culm("serve", "--http", "127.0.0.1:0", "--http-token-file", file)
    assert (2, True) == (result.code, "other users can read" in result.err)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--http", "0.0.0.0:0"), "set a token"),
        (("--http", "8484"), "HOST:PORT"),
        (("--http", "127.0.0.1:0", "--http-token-file", "/nowhere"), "cannot read /nowhere"),
        (("--http", "127.0.0.1:0", "--index", "x"), "an index has no status page"),
        (("--http-token-file", "x"), "nothing to do"),
        ((), "--http HOST:PORT"),
    ],
)
def test_wrong_calls(culm: Culm, arguments: tuple[str, ...], words: str) -> None:
    """Each is told in one line, with exit code 2."""
    result = culm("serve", *arguments)
    assert (2, 1) == (result.code, result.err.count("\n"))
    assert words in result.err


def test_a_bad_token_in_the_environment(culm: Culm, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token that could be guessed is refused, and not shown."""
    monkeypatch.setenv("CULM_HTTP_TOKEN", "guessed")
    result = culm("serve", "--http", "0.0.0.0:0")
    assert 2 == result.code
    assert "16 to 256" in result.err
    assert "guessed" not in result.err
