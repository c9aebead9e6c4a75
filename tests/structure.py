"""What the source looks like from outside: who imports whom, and how large folders, classes and constructors are."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SOURCE = Path(__file__).parents[1] / "src"


def modules(root: Path = SOURCE) -> dict[str, Path]:
    """Every module below a folder by its dotted name; a package is its ``__init__.py``."""
    found = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def parsed(path: Path) -> ast.Module:
    """A file as a tree."""
    return ast.parse(path.read_text())


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """The statements inside a node, at any depth; a walk through their expressions, too, takes many times as long."""
    for part in ("body", "orelse", "finalbody", "handlers", "cases"):
        for inner in getattr(node, part, ()):
            yield inner
            yield from statements(inner)


def imports(root: Path = SOURCE) -> dict[str, set[str]]:
    """The modules that each module imports: in functions and in ``TYPE_CHECKING`` blocks, too.

    ``from package import name`` leads to the module that defines the name if the package only passes it on. Otherwise
    each package would be in a circle with its modules, for they import one another through it.
    """
    files = modules(root)
    passed_on = {
        name: {alias.asname or alias.name: (node.module, alias.name) for node, alias in _from_imports(path)}
        for name, path in files.items()
        if path.name == "__init__.py"
    }

    def defining(module: str, name: str) -> str:
        if f"{module}.{name}" in files:
            return f"{module}.{name}"
        if name in passed_on.get(module, {}):
            return defining(*passed_on[module][name])
        return module

    found: dict[str, set[str]] = {}
    for module, path in files.items():
        whole = {name.name for node in statements(parsed(path)) if isinstance(node, ast.Import) for name in node.names}
        named = {defining(node.module, alias.name) for node, alias in _from_imports(path)}
        found[module] = ((whole | named) & files.keys()) - {module}
    return found


class _From(ast.ImportFrom):
    module: str


def _from_imports(path: Path) -> Iterator[tuple[_From, ast.alias]]:
    for node in statements(parsed(path)):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                yield node, alias  # type: ignore[misc] # the check above is what _From says


def circles(graph: Mapping[str, set[str]]) -> set[frozenset[str]]:
    """The strongly connected components of more than one module: each reaches all others of its circle."""
    reach = {name: _reached(graph, name) for name in graph}
    found = {frozenset(other for other in reach[name] if name in reach[other]) for name in graph}
    return {circle for circle in found if len(circle) > 1}


def _reached(graph: Mapping[str, set[str]], start: str) -> set[str]:
    seen, todo = set[str](), [start]
    while todo:
        for name in graph[todo.pop()] - seen:
            seen.add(name)
            todo.append(name)
    return seen


def classes(path: Path) -> Iterator[ast.ClassDef]:
    """The classes of a file, those inside others, too."""
    return (node for node in statements(parsed(path)) if isinstance(node, ast.ClassDef))


def fields(of: ast.ClassDef) -> set[str]:
    """The attributes of a class: those declared in its body, and those that ``__init__`` gives it."""
    declared = {
        node.target.id
        for node in of.body
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and "ClassVar" not in ast.unparse(node.annotation)
    }
    given = {
        node.attr
        for method in of.body
        if isinstance(method, ast.FunctionDef) and method.name in {"__init__", "__post_init__"}
        for node in ast.walk(method)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self"
    }
    return declared | given


def parameters(of: ast.ClassDef) -> int:
    """How many parameters a hand-written ``__init__`` has besides ``self``; 0 if there is none."""
    for method in of.body:
        if isinstance(method, ast.FunctionDef) and method.name == "__init__":
            given = method.args
            several = [*given.posonlyargs, *given.args, *given.kwonlyargs]
            return len(several) - 1 + (given.vararg is not None) + (given.kwarg is not None)
    return 0


def comparisons(path: Path, words: set[str]) -> int:
    """How many comparisons (``==``, ``in``, ``case``, ...) of a file have one of the words as a literal."""
    count = 0
    text = path.read_text()
    if not any(f'"{word}"' in text for word in words):  # as in nearly all files
        return 0
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            several = [side for one in sides if isinstance(one, ast.Tuple | ast.List | ast.Set) for side in one.elts]
            count += any(isinstance(side, ast.Constant) and side.value in words for side in [*sides, *several])
        elif isinstance(node, ast.MatchValue) and isinstance(node.value, ast.Constant):
            count += node.value.value in words
    return count
