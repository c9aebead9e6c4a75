"""What a mutant changes in functions is changed without another process, and nothing else is said to be."""

from __future__ import annotations

import gc
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

from tests.mutants.inplace import exchange

SOURCE = """
import functools

MOST = 5

def twice(n, by=2):
    return n * by

@functools.cache
def cached(n):
    return n + 1

class Counter:
    STEP = 1

    @property
    def next(self):
        return 6 + self.STEP

    def adder(self):
        by = 2
        def add(n):
            return n + by
        return add

def made(by):
    def multiply(n):
        return by * n
    return multiply

threefold = made(3)

def other():
    return (1,
            2)

def last():
    return 8
"""


@pytest.fixture
def module(tmp_path: Path) -> ModuleType:
    """The source, imported from a file."""
    file = tmp_path / "exchanged.py"
    file.write_text(SOURCE, encoding="utf-8")
    spec = spec_from_file_location("exchanged", file)
    assert spec is not None
    assert spec.loader is not None
    found = module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def exchanged(module: ModuleType, before: str, after: str) -> bool:
    """Change one place of the source."""
    assert SOURCE.count(before) == 1
    functions = [found for found in gc.get_objects() if isinstance(found, FunctionType)]
    return exchange(Path(module.__file__ or ""), SOURCE.replace(before, after), functions)


def test_a_function_that_others_hold(module: ModuleType) -> None:
    """Whoever has imported a function runs its new code, also behind a decorator, and nothing else changes."""
    twice, cached, counter = module.twice, module.cached, module.Counter()

    assert exchanged(module, "n * by", "n + by")
    assert twice(5) == 7
    assert cached(1) == 2

    assert exchanged(module, "n + 1", "n - 1")
    assert cached(2) == 1

    assert exchanged(module, "6 + self", "7 + self")
    assert counter.next == 8


def test_a_function_in_a_function(module: ModuleType) -> None:
    """What a function makes when it is called is made of its new code."""
    assert exchanged(module, "n + by", "n - by")

    assert module.Counter().adder()(5) == 3


def test_lines_that_move(module: ModuleType) -> None:
    """Functions below a change are the same, though they stand on other lines."""
    last = module.last.__code__

    assert exchanged(module, "(1,\n            2)", "(1, 3)")
    assert module.other() == (1, 3)
    assert module.last.__code__ is last


@pytest.mark.parametrize(
    ("before", "after"), [("MOST = 5", "MOST = 6"), ("by=2", "by=3"), ("STEP = 1", "STEP = 2"), ("by * n", "3 * n")]
)
def test_what_had_its_effect_at_import(module: ModuleType, before: str, after: str) -> None:
    """A constant, a default, a field of a class, and what a function has taken along need the module imported anew."""
    codes = [module.twice.__code__, module.made.__code__]

    assert not exchanged(module, before, after)
    assert [module.twice.__code__, module.made.__code__] == codes
