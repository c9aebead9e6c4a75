"""What ``make quick`` (``pytest --quick``) leaves out, and what it does not let pass.

A test belongs to the quick run unless it starts Spark, starts a process, or is long. The first two are found out here,
by looking through the code of the test and of its fixtures; a long test is marked by hand (``slow``, or ``models`` with
``tests.models``). So a new test is in the quick run without anybody thinking of it, and the quick run stays quick
because it fails a test that takes more than ``CPU_SECONDS``. One that starts a process all the same fails in every run.

The bound is on CPU time, because the time on the wall depends on what else the machine does.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from contextlib import contextmanager
from functools import cache
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import Phase, settings

if TYPE_CHECKING:
    from collections.abc import Iterator

CPU_SECONDS = float(os.environ.get("CULM_QUICK_SECONDS", "1"))
"""How long a test of the quick run may compute. The median takes two milliseconds, and thousands of tests share a
minute. The bound is several times what any test takes today, because a busy machine makes computing slower."""
SHOWN = 10  # slowest tests that a quick run ends with
LEFT_OUT = ("cluster", "long", "models", "slow", "spark", "subprocess")
"""Marks of tests that the quick run leaves out."""
EXAMPLES = 5
"""How many examples a property has at most, and a test of random rounds: enough to notice what is plainly wrong;
`make test` runs 25 and more."""

_PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
_OURS = ("tests", "bench", "crash", "fuzz", "release", "soak", "storm")
_INSIDE = ("__func__", "fget", "func")  # where methods and properties of all kinds have their function
_STARTS = {"subprocess.Popen", "os.fork", "os.posix_spawn", "os.system", "os.exec"}  # audit events
_STARTED = "a test of the quick run starts a process: mark it with pytest.mark.subprocess"


# -- which tests start processes -----------------------------------------------------------------------------------


_START_NONE: set[int] = set()  # the identities of what was looked through; all of it lives as long as its module


@cache  # all cases of a test have the same functions
def starts_processes(functions: tuple[Any, ...]) -> bool:
    """Whether functions of the tests use ``subprocess``, themselves or through others of ours that they name."""
    seen: set[int] = set()
    waiting: list[Any] = list(functions)
    while waiting:
        item = waiting.pop()
        if item is subprocess or getattr(item, "__module__", None) == "subprocess":
            return True
        if id(item) in seen or id(item) in _START_NONE:
            continue
        seen.add(id(item))
        if isinstance(item, type):
            waiting += [value for value in vars(item).values() if _is_ours(item) and not isinstance(value, type)]
            continue
        function = next((part for name in _INSIDE if (part := getattr(item, name, None)) is not None), item)
        function = getattr(function, "__wrapped__", function)
        if isinstance(function, FunctionType):
            waiting += _named(function) if _is_ours(function) else ()
        elif _is_ours(type(item)):  # an object that the module made
            waiting.append(type(item))
    _START_NONE.update(seen)
    return False


def _is_ours(item: Any) -> bool:
    return (item.__module__ or "").partition(".")[0] in _OURS


@cache  # a helper is named by many tests
def _named(function: FunctionType) -> list[Any]:
    """The functions, classes and modules that a function names, also as attributes of modules of ours."""
    names = set(_names(function.__code__))
    found: list[Any] = []
    for name in names & function.__globals__.keys():
        value = function.__globals__[name]
        if isinstance(value, ModuleType) and value.__name__.partition(".")[0] in _OURS:
            found += (vars(value)[inner] for inner in names & vars(value).keys())
        else:
            found.append(value)
    return found


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


_IS_QUICK = False


def begin() -> None:
    """Take this for a quick run. Called before test modules are imported."""
    global _IS_QUICK  # noqa: PLW0603 - a process runs tests once
    _IS_QUICK = True


def rounds(number: int, few: int = EXAMPLES) -> range:
    """The seeds of a test that does the same with so many random inputs; in a quick run the first ``few`` of them."""
    return range(min(number, few) if _IS_QUICK else number)


def fewer_examples(function: Any) -> None:
    """Bound the examples of a property, whatever it says itself, and do not shrink one that fails.

    Shrinking takes many times longer than finding out that something is wrong. Other tests stay as they are.
    """
    own = getattr(function, "_hypothesis_internal_use_settings", None)  # Hypothesis has no public name for it
    if own is not None:
        few = min(own.max_examples, EXAMPLES)
        function._hypothesis_internal_use_settings = settings(own, max_examples=few, phases=_PHASES)


# -- what a quick run does not let pass ----------------------------------------------------------------------------


class _Guard:
    """Refuses processes while a quick test runs. It cannot be taken back, as audit hooks cannot, only be idle."""

    def __init__(self) -> None:
        self.is_on = False
        self.is_hooked = False

    def __call__(self, event: str, _: object) -> None:
        if self.is_on and event in _STARTS:
            self.is_on = False  # so that what the failure itself does is not refused
            pytest.fail(_STARTED)


_GUARD = _Guard()


def _of_processes() -> float:
    """The CPU time in seconds of processes that have ended: those of ``multiprocessing`` raise no audit event."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@contextmanager
def starts_none() -> Iterator[None]:
    """Fail a test that starts a process: the quick run would, and whoever wrote the test should hear of it at once."""
    if not _GUARD.is_hooked:
        sys.addaudithook(_GUARD)
        _GUARD.is_hooked = True
    _GUARD.is_on = True
    others = _of_processes()
    try:
        yield
    finally:
        _GUARD.is_on = False
    if _of_processes() > others:
        pytest.fail(_STARTED)


@contextmanager
def watched(item: pytest.Item) -> Iterator[None]:
    """Run a test of the quick run: it starts no process, and takes no more than ``CPU_SECONDS``."""
    began = time.process_time()
    try:
        with starts_none():
            yield
    finally:
        spent = time.process_time() - began
        item.user_properties.append(("cpu", spent))
    if spent > CPU_SECONDS:
        pytest.fail(
            f"took {spent:.1f} s of CPU, and a test of the quick run may take {CPU_SECONDS}:"
            " make it shorter, or mark it with pytest.mark.slow"
        )


def write_slowest(reporter: pytest.TerminalReporter) -> None:
    """Show the tests that took most CPU time."""
    spent = [
        (seconds, report.nodeid)
        for report in [*reporter.getreports("passed"), *reporter.getreports("failed")]
        if report.when == "call"
        for name, seconds in report.user_properties
        if name == "cpu"
    ]
    total = sum(seconds for seconds, _ in spent)
    reporter.section(f"CPU time: {len(spent)} tests took {total:.0f} s in all; the {SHOWN} slowest of them")
    for seconds, name in sorted(spent, reverse=True)[:SHOWN]:
        reporter.write_line(f"{seconds:6.2f} s  {name}")
