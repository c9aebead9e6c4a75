"""Fixtures for pytest, which finds this module by its entry point where Culm is installed.

Every run of pytest on the machine loads it, also those that have nothing to do with Culm. So it imports no other part
of Culm before a fixture is used, and its one hook only looks at the fixtures of a test. To leave it out, give
pytest ``-p no:culm.testing.plugin``.
"""

import inspect
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from culm.testing import World, WorldNode


@pytest.fixture
def culm_world(request: pytest.FixtureRequest) -> Iterator["World"]:
    """A ``culm.testing.World``. An ``async`` test that uses it, or one of the fixtures below, runs in it."""
    test: Any = request.node
    # Another plugin makes items of a class of its own to run coroutines in its own event loop. There the test would
    # wait for ever, because the nodes work in the world's.
    if inspect.iscoroutinefunction(test.obj) and type(test) is not pytest.Function:
        pytest.fail(
            f"{type(test).__module__} runs this test in an event loop in which Culm's nodes do not work:"
            " write a plain test that calls culm_world.run(...)",
            pytrace=False,
        )
    from culm.testing import World  # noqa: PLC0415 - not before it is used, see above

    with World() as world:
        yield world


@pytest.fixture
def culm_node(culm_world: "World") -> "WorldNode":
    """An open node, named ``alice``."""
    return culm_world.run(culm_world.node("alice"))


@pytest.fixture
def culm_pair(culm_world: "World") -> tuple["WorldNode", "WorldNode"]:
    """Two open nodes, ``alice`` and ``bob``. Bob stays connected to Alice."""

    async def connected() -> tuple["WorldNode", "WorldNode"]:
        alice, bob = await culm_world.node("alice"), await culm_world.node("bob")
        await bob.connect(alice.url)
        await culm_world.until(lambda: all(peer.connected for peer in bob.peers()))
        return alice, bob

    return culm_world.run(connected())


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an ``async`` test in its world; leave all other tests alone."""
    world: Any = pyfuncitem.funcargs.get("culm_world")
    if world is None or not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}  # noqa: SLF001 - as pytest itself calls tests
    world.run(pyfuncitem.obj(**arguments))
    return True
