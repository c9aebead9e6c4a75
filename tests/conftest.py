"""How tests are shared out where several processes run them (``make test``)."""

from __future__ import annotations

import pytest
from hypothesis import settings

settings.register_profile("culm", deadline=None)  # a slow machine is no failure
settings.load_profile("culm")


@pytest.hookimpl(tryfirst=True)  # before the names of groups are read
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests that need Spark go to one process: they share its session."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()) or item.get_closest_marker("spark") is not None:
            item.add_marker(pytest.mark.xdist_group("spark"))
