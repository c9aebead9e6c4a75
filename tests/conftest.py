"""How tests are shared out where several processes run them (``make test``)."""

from __future__ import annotations

import os
import signal
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests import models

for _name in ("asking", "machine", "machine_reading", "machine_transfers", "machine_writing"):
    pytest.register_assert_rewrite(f"tests.store.{_name}")

if TYPE_CHECKING:
    from collections.abc import Iterator

_SLOW = HealthCheck.too_slow  # as a machine is that does something else: no failure
settings.register_profile("culm", deadline=None, suppress_health_check=[_SLOW])
settings.load_profile("culm")


def pytest_configure() -> None:
    """Programs that are started can be interrupted, also where whoever started the tests ignores that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell has it for what it runs in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_xdist_auto_num_workers() -> int:
    """One process more than there are cores: many tests wait for something."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(tryfirst=True)  # before the names of groups are read
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests that need Spark go to one process: they share its session."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()) or item.get_closest_marker("spark") is not None:
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """A test of random operations against a model tells how many there were, whether it fails or not."""
    models.COUNTS.clear()
    try:
        yield
    finally:
        if models.COUNTS:
            item.user_properties.append(("models", dict(models.COUNTS)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Where more than usual was asked for (``make models``): a line for each such test, and one for all."""
    if models.FACTOR == 1:
        return
    total: Counter[str] = Counter()
    terminalreporter.section("models")
    for report in [*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")]:
        for name, counts in report.user_properties:
            if name == "models" and report.when == "call":
                total.update(counts)
                terminalreporter.write_line(f"{_said(counts)}: {report.nodeid}")
    terminalreporter.write_line(f"in all {_said(total)}")


def _said(counts: dict[str, int]) -> str:
    return ", ".join(f"{number:,} {kind}" for kind, number in sorted(counts.items()))
