"""What holds for the code of every protocol package: no import circles, small classes, short constructors."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import culm

PACKAGES = ("bushbaby", "intervals", "proposals", "session", "transfer")
MOST_FIELDS = 15
MOST_PARAMETERS = 8
SOURCE = Path(culm.__file__).parent
MODULES = {
    f"culm.{path.relative_to(SOURCE).with_suffix('').as_posix().replace('/', '.')}".removesuffix(
        ".__init__"
    ): ast.parse(path.read_text())
    for package in PACKAGES
    for path in (SOURCE / package).glob("*.py")
}
CLASSES = [
    pytest.param(node, id=f"{module}.{node.name}")
    for module, tree in sorted(MODULES.items())
    for node in ast.walk(tree)
    if isinstance(node, ast.ClassDef)
]


def imports(tree: ast.Module) -> set[str]:
    """The modules of protocol packages that a module imports, for types only or for good."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                found.add(name if name in MODULES else node.module)
    return found & MODULES.keys()


def test_no_import_circle() -> None:
    """Modules can be put in an order in which each imports only those before it, with imports for types counted."""
    waiting = {module: imports(tree) for module, tree in MODULES.items()}
    while ready := {module for module, needed in waiting.items() if not needed & waiting.keys()}:
        waiting = {module: needed for module, needed in waiting.items() if module not in ready}
    assert waiting == {}


@pytest.mark.parametrize("node", CLASSES)
def test_classes_are_small(node: ast.ClassDef) -> None:
    """No class has more fields than a reader can keep in mind."""
    fields = {
        target.attr
        for statement in ast.walk(node)
        if isinstance(statement, ast.Assign | ast.AnnAssign)
        for each in (statement.targets if isinstance(statement, ast.Assign) else [statement.target])
        for target in ast.walk(each)
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self"
    }
    assert len(fields) <= MOST_FIELDS, sorted(fields)


@pytest.mark.parametrize("node", CLASSES)
def test_constructors_are_short(node: ast.ClassDef) -> None:
    """No constructor written by hand takes more arguments than can be told apart."""
    for method in node.body:
        if isinstance(method, ast.FunctionDef) and method.name == "__init__":
            assert len(method.args.args) - 1 + len(method.args.kwonlyargs) <= MOST_PARAMETERS
