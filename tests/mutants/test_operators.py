"""Mutants are programs that differ in one place, and only where behaviour is."""

from __future__ import annotations

import ast
import os
from typing import TYPE_CHECKING

import pytest
from coverage import CoverageData

from tests.mutants.__main__ import Reached, draw, equivalents, is_current, near
from tests.mutants.operators import Mutant, mutants
from tests.test_coverage_map import modules

if TYPE_CHECKING:
    from pathlib import Path


def changes(source: str) -> set[tuple[str, str]]:
    """What stands where, before and after."""
    return {(mutant.before, mutant.after) for mutant in mutants("m", source)}


@pytest.mark.parametrize(
    ("source", "before", "after"),
    [
        ("x = a < b", "a < b", "a <= b"),
        ("x = 0 <= a < b", "0 <= a < b", "0 < a < b"),
        ("x = 0 <= a < b", "0 <= a < b", "0 <= a <= b"),
        ("x = a and b", "a and b", "a or b"),
        ("if not a:\n    f()", "not a", "a"),
        ("x = a + b", "a + b", "a - b"),
        ("x = 7", "7", "8"),
        ("x = True", "True", "False"),
        ("x += y", "x += y", "x -= y"),
        ("raise ValueError('no')", "raise ValueError('no')", "pass"),
        ("f(x)", "f(x)", "pass"),
        ("while a:\n    break", "break", "continue"),
    ],
)
def test_slips(source: str, before: str, after: str) -> None:
    """Each kind of slip is made."""
    assert (before, after) in changes(source)


@pytest.mark.parametrize(
    "source",
    [
        '"""Text with 1 + 1."""',
        "from __future__ import annotations",
        "x: int",
        "__all__ = ['a']",
        "def __repr__(self):\n    return 1 < 2",
        "x = f'{a + 1}'",
        "x = b'a' + b",
        "x = pair[0]",
    ],
)
def test_what_is_no_behaviour(source: str) -> None:
    """Texts, types, imports and fields of a sequence stay as they are."""
    assert changes(source) == set()


@pytest.mark.slow
def test_each_mutant_of_a_module_is_a_program() -> None:
    """Every mutant parses, and its tree is another one than the module's."""
    source = modules()["bamboo.entry"].read_text()
    tree = ast.dump(ast.parse(source))
    found = list(mutants("bamboo.entry", source))
    assert len(found) > 50
    assert all(ast.dump(ast.parse(mutant.source)) != tree for mutant in found)


@pytest.mark.slow
def test_a_draw_is_the_same_again() -> None:
    """A seed draws the same mutants, another seed others, and each module drawn from has tests."""
    drawn = draw(["bamboo"], 20, 1)
    assert drawn == draw(["bamboo"], 20, 1) != draw(["bamboo"], 20, 2)
    assert all(near(mutant.module)[0] for mutant in drawn)


@pytest.mark.slow
def test_each_equivalent_mutant_has_a_reason() -> None:
    """The list names mutants that there are, and says why nothing could notice them."""
    known = equivalents()
    assert all(known.values())
    there = {mutant.key for name, path in modules().items() for mutant in mutants(name, path.read_text())}
    assert known.keys() <= there


def test_the_tests_that_run_a_line(tmp_path: Path) -> None:
    """Of a mutant those tests are taken that run its statement, its module's first; importing may run it, too."""
    path, other = str(modules()["bamboo.lipmaa"]), "tests/store/test_a.py::test_b[x::y|z]|run"
    data = CoverageData(str(tmp_path / "lines"))
    for context, lines in {
        "": [1, 2],
        other: [2, 10],
        "tests/bamboo/test_a.py::test_c|run": [10],
        "tests/bamboo/test_lipmaa.py::test_d[0]|setup": [10],
        "tests/bamboo/test_lipmaa.py::test_d[1]|run": [11],
    }.items():
        data.set_context(context)
        data.add_lines({path: lines})
    data.write()

    def mutant(*lines: int) -> Mutant:
        return Mutant("bamboo.lipmaa", "f", range(lines[0], lines[-1] + 1), "1", "2", "")

    reached = Reached(tmp_path / "lines")
    assert reached.tests(mutant(10, 11)) == {
        "tests/bamboo/test_lipmaa.py::test_d": 0,
        "tests/bamboo/test_a.py::test_c": 1,
        "tests/store/test_a.py::test_b": 2,
    }
    assert reached.tests(mutant(12)) == {}
    assert [reached.is_imported(mutant(line)) for line in (2, 10, 12)] == [True, False, False]


def test_a_record_of_lines_counts_until_a_module_changes(tmp_path: Path) -> None:
    """A record that is missing, or older than any module, says nothing of today's lines and tests."""
    module, lines = tmp_path / "src" / "a" / "b.py", tmp_path / "lines"
    module.parent.mkdir(parents=True)
    module.touch()
    os.utime(module, (100, 100))
    assert not is_current(lines, tmp_path / "src")
    lines.touch()
    os.utime(lines, (100, 100))
    assert is_current(lines, tmp_path / "src")
    os.utime(module, (101, 101))
    assert not is_current(lines, tmp_path / "src")
