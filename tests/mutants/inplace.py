"""Most mutants at the price of their tests: the code of functions is exchanged in a process that has all tests.

To start Python and to collect the tests takes seconds, and a mutant usually dies of a test of milliseconds. So one
process collects the quick tests once. For each mutant it is forked; the child gives the functions that the mutant
changes their new code and runs the tests that run the line, until one fails. What a mutant changes outside of
functions (a constant of a module, a default) has had its effect when the module was imported: that needs a process of
its own.
"""

from __future__ import annotations

import faulthandler
import functools
import gc
import json
import os
import resource
import shutil
import signal
import tempfile
import time
from contextlib import suppress
from enum import IntEnum
from inspect import CO_NEWLOCALS
from itertools import zip_longest
from pathlib import Path
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.test_coverage_map import modules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.mutants.operators import Mutant

_SECONDS = 10  # for a mutant, and that one test may take: those of a quick run take milliseconds
_BYTES = 4 << 30  # of memory that a child may use: a mutant may fill all there is


class Verdict(IntEnum):
    """What became of a mutant, as the exit code of its child."""

    SURVIVED = 0
    NOTICED = 1
    OUTSIDE = 2  # it changes more than functions


class Code(NamedTuple):
    """What can be exchanged in a process: its functions, and what caches remember of them."""

    functions: list[FunctionType]
    caches: list[functools._lru_cache_wrapper[Any]]

    @classmethod
    def of_process(cls) -> Code:
        """All that there is now."""
        gc.unfreeze()  # what is frozen is not listed
        there = gc.get_objects()
        gc.freeze()
        functions = [found for found in there if isinstance(found, FunctionType)]
        return cls(functions, [found for found in there if isinstance(found, functools._lru_cache_wrapper)])


def exchange(file: Path, source: str, functions: list[FunctionType]) -> bool:
    """Give those of these functions that differ in another source of a file their code there.

    False, and nothing is done, if the source changes more than functions.
    """
    before = compile(file.read_text(encoding="utf-8"), str(file), "exec", dont_inherit=True)
    after = compile(source, str(file), "exec", dont_inherit=True)
    pairs = list(_different(before, after))
    ours = [function for function in functions if function.__code__.co_filename == str(file)]
    found = [(function, new) for old, new in pairs for function in ours if function.__code__ == old]
    if not all(code.co_flags & CO_NEWLOCALS for code, _ in pairs):  # code of a module or of a class is without
        return False
    if any(function.__code__.co_freevars != new.co_freevars for function, new in found):
        return False
    for function, new in found:
        function.__code__ = new
    return bool(found)


def _different(before: CodeType, after: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """The pairs of code objects that differ, and of functions those around them."""
    inside = [pair for old, new in zip(_inner(before), _inner(after), strict=False) for pair in _different(old, new)]
    if _bare(before) != _bare(after) or (inside and before.co_flags & CO_NEWLOCALS):
        yield before, after
    yield from inside


def _inner(code: CodeType) -> list[CodeType]:
    return [constant for constant in code.co_consts if isinstance(constant, CodeType)]


def _bare(code: CodeType) -> CodeType:
    """Without lines, and without the code inside: a change of a statement may move all lines below."""
    constants = tuple(None if isinstance(constant, CodeType) else constant for constant in code.co_consts)
    return code.replace(co_consts=constants, co_firstlineno=0, co_linetable=b"")


class InPlace:
    """A plugin of pytest: the collected tests run once as they are, and then again for each mutant.

    ``reaching`` names the test functions that run a mutant's line, each with a rank: those of a lower rank run first,
    and of one rank the shortest. ``heard`` is called with each mutant and what became of it.
    """

    def __init__(
        self,
        mutants: list[Mutant],
        jobs: int,
        reaching: Callable[[Mutant], dict[str, int]],
        heard: Callable[[Mutant, Verdict], None],
    ) -> None:
        self._mutants = mutants
        self._jobs = jobs
        self._reaching = reaching
        self._heard = heard
        self._tests: dict[str, list[tuple[float, pytest.Item]]] = {}
        self.failing: list[str] = []
        """The tests that fail without a mutant, and so say nothing."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Fork once for each mutant."""
        code = Code.of_process()
        with tempfile.TemporaryDirectory(prefix="culm-mutants-") as name:
            home = Path(name)
            home.chmod(0o755)
            self._run_all(session, home)
            waiting = iter(self._mutants)
            running: dict[int, tuple[Mutant, Path]] = {}
            while True:
                while len(running) < self._jobs and (mutant := next(waiting, None)) is not None:
                    folder = _folder(home)
                    trial = functools.partial(_try, session, mutant, code, self._items(mutant))
                    running[_fork(folder, trial)] = mutant, folder
                if not running:
                    return True
                ended, status = os.wait()
                mutant, folder = running.pop(ended)
                with suppress(ProcessLookupError):
                    os.killpg(ended, signal.SIGKILL)  # what it has started
                shutil.rmtree(folder, ignore_errors=True)
                ending = os.waitstatus_to_exitcode(status)
                known = ending in (
                    Verdict.SURVIVED,
                    Verdict.OUTSIDE,
                )  # Otherwise a test has failed, or ended the child.
                self._heard(mutant, Verdict(ending) if known else Verdict.NOTICED)

    def _run_all(self, session: pytest.Session, home: Path) -> None:
        """Run all tests once, to see which fail and how long each takes."""
        noted = home / "noted"
        parts = [session.items[number :: self._jobs] for number in range(self._jobs)]
        children = [_fork(_folder(home), functools.partial(_note, session, part, noted)) for part in parts]
        for child in children:
            if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
                raise pytest.UsageError("the tests do not end without a mutant; run make quick and mend that first")
        items = {item.nodeid: item for item in session.items}
        for line in noted.read_text(encoding="utf-8").splitlines():
            name, failed, seconds = json.loads(line)
            if failed:
                self.failing.append(name)
            else:
                self._tests.setdefault(name.partition("[")[0], []).append((seconds, items[name]))

    def _items(self, mutant: Mutant) -> list[pytest.Item]:
        found = [
            (rank, seconds, item)
            for name, rank in self._reaching(mutant).items()
            for seconds, item in self._tests.get(name, ())
        ]
        return [item for _, _, item in sorted(found, key=lambda one: one[:2])]


def _folder(home: Path) -> Path:
    """For the files of a child, and open to all, as the tests expect: some work as nobody for a moment."""
    folder = Path(tempfile.mkdtemp(dir=home))
    folder.chmod(0o755)
    return folder


def _fork(folder: Path, run: Callable[[], Verdict]) -> int:
    """A process of its own group that keeps its files in a folder and writes nothing."""
    child = os.fork()
    if child:
        return child
    code = Verdict.NOTICED
    try:
        os.setpgid(0, 0)
        os.environ["PYTEST_DEBUG_TEMPROOT"] = os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
        resource.setrlimit(resource.RLIMIT_DATA, (_BYTES, _BYTES))
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(nothing, stream)
        code = run()
    finally:
        os._exit(code)


def _note(session: pytest.Session, items: list[pytest.Item], noted: Path) -> Verdict:
    """Run all, and write down which fail and how long each takes."""
    failed, began = 0, time.perf_counter()
    with noted.open("a", encoding="utf-8", buffering=1) as file:  # a line at a time: several processes write
        for item in _run(items):
            now = time.perf_counter()
            file.write(json.dumps([item.nodeid, session.testsfailed > failed, now - began]) + "\n")
            failed, began = session.testsfailed, now
    return Verdict.SURVIVED


def _try(session: pytest.Session, mutant: Mutant, code: Code, items: list[pytest.Item]) -> Verdict:
    if not exchange(modules()[mutant.module], mutant.source, code.functions):
        return Verdict.OUTSIDE
    for cached in code.caches:
        cached.cache_clear()  # of what the functions gave before
    until = time.perf_counter() + _SECONDS
    for _ in _run(items):
        if session.testsfailed:
            return Verdict.NOTICED
        if time.perf_counter() > until:
            break
    return Verdict.SURVIVED


def _run(items: list[pytest.Item]) -> Iterator[pytest.Item]:
    """Run each. Python's watchdog also ends a loop in C, which a thread that looks at the clock does not."""
    with Path(os.devnull).open("w") as nothing:
        for item, following in zip_longest(items, items[1:]):
            faulthandler.dump_traceback_later(_SECONDS, exit=True, file=nothing)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            yield item
    faulthandler.cancel_dump_traceback_later()
