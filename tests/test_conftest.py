"""How tests are shared out among processes, and what a quick run does not let pass."""

from __future__ import annotations

import subprocess
import sys
import time
from multiprocessing import get_context

import pytest

from tests import quick


@pytest.mark.xdist_group("shared")
def test_groups_are_kept(request: pytest.FixtureRequest) -> None:
    """Where tests are shared out by group, ``pytest-xdist`` knows the group of each.

    It goes by the test's id, and not every version of pytest lets it write the group there. Nothing else would show it:
    all tests pass, but every process starts its own Spark, browser and peers.
    """
    by_group = getattr(request.config.option, "loadgroup", False)
    assert by_group == request.node.nodeid.endswith("@shared")


def test_names_are_short(request: pytest.FixtureRequest) -> None:
    """No test's name takes a page, whatever its parameters are."""
    assert [item.nodeid for item in request.session.items if len(item.nodeid) > 1000] == []


@pytest.mark.subprocess
def test_a_process_is_noticed(request: pytest.FixtureRequest) -> None:
    """A quick test that starts a process fails, also where Python reports no event of it (``multiprocessing``)."""
    with pytest.raises(pytest.fail.Exception, match="starts a process"), quick.watched(request.node):
        subprocess.run([sys.executable, "-c", ""], check=True)
    with pytest.raises(pytest.fail.Exception, match="starts a process"), quick.watched(request.node):
        process = get_context("spawn").Process(target=time.process_time)
        process.start()
        process.join()
