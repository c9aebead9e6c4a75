"""The plugin for pytest: declared, cheap where nothing needs it, and its fixtures."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TYPE_CHECKING

import culm.testing.plugin

if TYPE_CHECKING:
    from culm.testing import World, WorldNode

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def run_pytest(folder: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a test module of its own by pytest, with the plugin."""
    (folder / "test_it.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "culm.testing.plugin", *options, "test_it.py"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_the_entry_point() -> None:
    """The plugin is found by its entry point, whose name is the module's, so that it is never loaded twice."""
    ((name, value),) = tomllib.loads(PROJECT.read_text())["project"]["entry-points"]["pytest11"].items()
    assert culm.testing.plugin is EntryPoint(name, value, "pytest11").load()
    assert name == culm.testing.plugin.__name__


def test_nothing_heavy_is_imported(tmp_path: Path) -> None:
    """A run that does not use the plugin imports three modules of Culm, and none of its dependencies."""
    text = """
import sys

def test_modules():
    ours = {name for name in sys.modules if name.partition(".")[0] == "culm"}
    assert ours == {"culm", "culm.testing", "culm.testing.plugin"}
    assert not {"cryptography", "nacl", "numpy", "rich", "sqlite3"} & set(sys.modules)
"""
    result = run_pytest(tmp_path, text, "-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:randomly")
    assert 0 == result.returncode, result.stdout


def test_other_async_tests_are_left_alone(tmp_path: Path) -> None:
    """A coroutine without one of the fixtures is for another plugin; without any, pytest refuses it as ever."""
    result = run_pytest(tmp_path, "async def test_it(): pass\n")
    assert (1, True) == (result.returncode, "async def functions are not natively supported" in result.stdout)


TAKER = """
import asyncio, inspect, pytest

class Taken(pytest.Function):
    def runtest(self):
        asyncio.run(self.obj(**{name: self.funcargs[name] for name in self._fixtureinfo.argnames}))

@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem(collector, name, obj):
    found = yield
    for item in found or []:
        if inspect.iscoroutinefunction(getattr(item, "obj", None)):
            found = [Taken.from_parent(collector, name=name)]
    return found
"""
"""A plugin that takes all coroutines, as pytest-asyncio does in its mode ``auto``."""


def test_a_plugin_that_takes_all_coroutines(tmp_path: Path) -> None:
    """A test that another plugin would run, away from its nodes, says so and does not wait for ever."""
    (tmp_path / "conftest.py").write_text(TAKER)
    text = "async def test_other(): pass\nasync def test_it(culm_node): await culm_node.append(1, 'hello')\n"
    result = run_pytest(tmp_path, text)
    assert "write a plain test that calls culm_world.run(...)" in result.stdout
    assert "1 passed, 1 error" in result.stdout


def test_a_test_that_is_no_coroutine(culm_world: World, culm_node: WorldNode) -> None:
    """A plain test uses the fixtures with ``run``."""
    entry = culm_world.run(culm_node.append(1, "hello"))
    assert b"hello" == culm_world.run(culm_node.payload(entry))


async def test_a_coroutine(culm_pair: tuple[WorldNode, WorldNode], tmp_path: Path) -> None:
    """A coroutine runs in the world of its nodes, and has its other fixtures, too."""
    alice, bob = culm_pair
    assert [alice.url] == [peer.url for peer in bob.peers() if peer.connected]
    assert tmp_path.is_absolute()
    assert alice.author != bob.author
