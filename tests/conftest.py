"""How tests are shared out where several processes run them (``make test``), and where their files are."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import tempfile
from collections import Counter
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from nacl.pwhash import argon2id

from tests import models, quick

# Its entry point gives it to users. Here it is named, so that nothing depends on when Culm was installed into .venv.
pytest_plugins = ["culm.testing.plugin"]

for _name in ("asking", "machine", "machine_reading", "machine_transfers", "machine_writing"):
    pytest.register_assert_rewrite(f"tests.store.{_name}")

if TYPE_CHECKING:
    from collections.abc import Iterator

_SLOW = HealthCheck.too_slow  # as a machine is that does something else: no failure
settings.register_profile("culm", max_examples=25, deadline=None, suppress_health_check=[_SLOW])
settings.load_profile("culm")

_MEMORY = Path("/dev/shm")
# Bytes. The store and crash tests had 82 MB at a time, those with Spark more; containers often have 64 MiB there.
_ENOUGH = 4 << 30
_LONG_SECONDS = 300  # For a test that takes a minute alone: others run beside it, and the machine may be busy.
_BEGIN_WITH = ("long", "slow", "models", "subprocess")  # marks
_LONG, _SHOWN = 100, 30  # characters or bytes: longer parameters are not whole in a test's name


def _keep_files_in_memory() -> None:
    """Have temporary files in memory where Linux has room there, unless ``TMPDIR`` says where.

    A store waits for the disk at each commit, and the tests make thousands of stores: on a disk the processors are idle
    for a quarter of the time.
    """
    if "TMPDIR" in os.environ or not os.access(_MEMORY, os.W_OK):
        return
    may_execute = not os.statvfs(_MEMORY).f_flag & os.ST_NOEXEC  # tests write programs, too, and start them
    if may_execute and shutil.disk_usage(_MEMORY).free >= _ENOUGH:
        os.environ["TMPDIR"] = str(_MEMORY)
        tempfile.tempdir = None  # so that it is looked up again: pytest itself has files already


os.environ.setdefault("LANGUAGE", "C")  # otherwise argparse looks on the disk for a translation of each of its words
_keep_files_in_memory()  # Not in a hook: test modules that are imported while tests are collected may write files.


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--quick``, which ``make quick`` gives."""
    parser.addoption("--quick", action="store_true", help="only tests to run while thinking (tests/quick.py)")


def pytest_configure(config: pytest.Config) -> None:
    """Programs that are started can be interrupted, also where whoever started the tests ignores that."""
    if config.getoption("quick"):
        quick.begin()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell has it for what it runs in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_make_parametrize_id(val: object) -> str | None:
    """Of a long text or bytes string a test's name has the beginning: some have megabytes."""
    if isinstance(val, str | bytes) and len(val) > _LONG:
        return f"{val[:_SHOWN]!a} and {len(val) - _SHOWN} more"
    return None


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist, which may be left out
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Two processes more than there are cores, because many tests wait for something; those of a quick run do not."""
    return (os.cpu_count() or 1) + (0 if config.getoption("quick") else 2)


@pytest.hookimpl(tryfirst=True)  # before the names of groups are read
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what starts processes, and send all tests that share a Spark session to one process.

    Those that start sessions of their own go to another one, so that not all with Spark wait for each other.
    """
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.xdist_group("spark"))
        elif item.get_closest_marker("spark") is not None:
            item.add_marker(pytest.mark.xdist_group("sessions of their own"))
        if isinstance(item, pytest.Function) and quick.starts_processes(_functions(item)):
            item.add_marker(pytest.mark.subprocess)
        if item.get_closest_marker("long") is not None and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(_LONG_SECONDS))
    if config.getoption("quick"):
        left_out = {item for item in items if any(item.get_closest_marker(name) for name in quick.LEFT_OUT)}
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]
        for item in items:
            quick.fewer_examples(getattr(item, "function", None))


@pytest.hookimpl(trylast=True, specname="pytest_collection_modifyitems")  # after all has been shuffled
def longest_first(items: list[pytest.Item]) -> None:
    """Begin with the long tests, in random order among themselves.

    Otherwise one process may begin with a long test at the end, and the others have nothing left to do.
    """
    items.sort(key=lambda item: not any(map(item.get_closest_marker, _BEGIN_WITH)))


def pytest_collection() -> None:
    """While tests are collected no garbage is: each collection would look through all of them, and finds little."""
    gc.disable()


def pytest_collection_finish() -> None:
    """No garbage collection looks through the tests and their modules again: they live until the end."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def fonts() -> None:
    """What a test that draws a chart needs: matplotlib has looked for the machine's fonts.

    The first time it does that on a machine, it starts a program and computes for seconds.
    """
    import_module("matplotlib.font_manager")


@pytest.fixture
def cheap_passphrases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Identities are sealed at the lowest costs there are: otherwise each use of a passphrase takes half a second."""
    monkeypatch.setattr("nacl.pwhash.argon2id.OPSLIMIT_MODERATE", argon2id.OPSLIMIT_MIN)
    monkeypatch.setattr("nacl.pwhash.argon2id.MEMLIMIT_MODERATE", argon2id.MEMLIMIT_MIN)


def _functions(item: pytest.Function) -> tuple[Any, ...]:
    """The function of a test, and those of its fixtures."""
    function: Any = item.function
    inner = getattr(getattr(function, "hypothesis", None), "inner_test", function)
    fixtures = item._fixtureinfo.name2fixturedefs.values()
    return (function, inner, *(fixture.func for definitions in fixtures for fixture in definitions))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """A test of random operations against a model tells how many there were, whether it fails or not."""
    models.COUNTS.clear()
    try:
        with _watch(item):
            yield
    finally:
        if models.COUNTS:
            item.user_properties.append(("models", dict(models.COUNTS)))


def _watch(item: pytest.Item) -> AbstractContextManager[None]:
    if item.config.getoption("quick"):
        return quick.watched(item)
    return nullcontext() if any(map(item.get_closest_marker, quick.LEFT_OUT)) else quick.starts_none()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The slowest tests of a quick run. Of ``make models`` a line for each such test, and one for all."""
    if terminalreporter.config.getoption("quick"):
        quick.write_slowest(terminalreporter)
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
