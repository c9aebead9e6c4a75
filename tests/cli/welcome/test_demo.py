"""``culm demo``: the steps hold, and a step that does not is said."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from culm.cli.command import main
from culm.cli.welcome import demo

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs of a few entries."""
    for name, value in (("LOGS", {1: 7, 2: 6, 3: 7}), ("BIG_BYTES", 100_000), ("TOTAL", 21)):
        monkeypatch.setattr(demo, name, value)


@pytest.mark.slow
@pytest.mark.usefixtures("_small")
def test_the_steps_hold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every step of ``culm demo`` but the kill and Spark holds, with logs of a few entries."""
    demo.publish(tmp_path)
    server, url = demo.serve(tmp_path)
    try:
        demo.sync_again(tmp_path, url, 0)
        demo.compare(tmp_path)
        demo.refuse_forgery(tmp_path)
    finally:
        server.kill()
        server.communicate()
    assert 8 == capsys.readouterr().out.count("\n  ok: ")


def test_a_step_that_fails_ends_it(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A step that did not do what it says is named, and the exit code is 1."""

    def fail(_folder: Path) -> None:
        demo.check(False, "Alice holds all entries")

    monkeypatch.setattr(demo, "publish", fail)
    assert main(["demo"]) == 1
    assert capsys.readouterr().out == "\nFAILED: Alice holds all entries\n"


def test_without_spark_the_rest_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where Spark is not installed, its step says so and how to add it."""
    monkeypatch.setattr(demo, "is_installed", lambda _: False)
    demo.verify_on_spark(tmp_path)
    assert "pip install 'culm[spark]'" in capsys.readouterr().out
