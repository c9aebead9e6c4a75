"""How tests are shared out among processes."""

from __future__ import annotations

import pytest


@pytest.mark.xdist_group("shared")
def test_groups_are_kept(request: pytest.FixtureRequest) -> None:
    """Where tests are shared out by group, ``pytest-xdist`` knows the group of each.

    It goes by the test's id, and not every version of pytest lets it write the group there. Nothing else would show it:
    all tests pass, but every process starts its own Spark, browser and peers.
    """
    by_group = getattr(request.config.option, "loadgroup", False)
    assert by_group == request.node.nodeid.endswith("@shared")
