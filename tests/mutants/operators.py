"""Small changes of a module's code that a test should notice.

Each mutant differs from the module in one place: a comparison that includes its border or no longer does, ``and`` for
``or``, a number one larger, a check left out. These are the slips that reading does not find. Text of messages, types,
and constants in ``repr`` are left alone, because what they say is not behaviour.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_OPERATIONS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_SILENT = {"__repr__", "__str__", "__dir__"}


@dataclass(frozen=True)
class Mutant:
    """One change: in which module and function, on which lines, what stood there and what stands there now.

    ``lines``: from the beginning of the statement on, because that is the line that a tool for coverage may name.
    """

    module: str
    function: str
    lines: range
    before: str
    after: str
    source: str

    @property
    def key(self) -> str:
        """What names the mutant in lists: no line number, so that it survives changes elsewhere in the file."""
        return f"{self.module} {self.function}: {self.before} -> {self.after}"


def mutants(module: str, source: str) -> Iterator[Mutant]:
    """All mutants of a module."""
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    data = source.encode()
    for node, function, first in _places(ast.parse(source)):
        low = starts[node.lineno - 1] + node.col_offset
        high = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        for changed in _changes(node):
            text = ast.unparse(changed)
            text = f"({text})" if isinstance(changed, ast.expr) and not isinstance(changed, ast.Constant) else text
            mutated = (data[:low] + text.encode() + data[high:]).decode()
            lines = range(first, (node.end_lineno or first) + 1)
            yield Mutant(module, function, lines, ast.unparse(node), ast.unparse(changed), mutated)


def _changes(node: ast.expr | ast.stmt) -> Iterator[ast.expr | ast.stmt]:
    return _other_expressions(node) if isinstance(node, ast.expr) else _other_statements(node)


def _other_expressions(node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.Compare(left, operations, operands):
            for at, operation in enumerate(operations):
                if type(operation) in _COMPARISONS:
                    other = _COMPARISONS[type(operation)]()
                    yield ast.Compare(left, [*operations[:at], other, *operations[at + 1 :]], operands)
        case ast.BoolOp(operation, values):
            yield ast.BoolOp(ast.Or() if isinstance(operation, ast.And) else ast.And(), values)
        case ast.UnaryOp(ast.Not(), operand):
            yield operand
        case ast.BinOp(left, operation, right) if type(operation) in _OPERATIONS and not _is_text(left, right):
            yield ast.BinOp(left, _OPERATIONS[type(operation)](), right)
        case ast.Constant(bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(int() as value):
            yield ast.Constant(value + 1)


def _other_statements(node: ast.stmt) -> Iterator[ast.stmt]:
    match node:
        case ast.AugAssign(target, operation, value) if type(operation) in _OPERATIONS and not _is_text(value):
            yield ast.AugAssign(target, _OPERATIONS[type(operation)](), value)
        case ast.Raise() | ast.Expr(ast.Call()) | ast.AugAssign():
            yield ast.Pass()
        case ast.Break():
            yield ast.Continue()
        case ast.Continue():
            yield ast.Break()


def _is_text(*operands: ast.expr) -> bool:
    """Whether an operand shows that text or bytes are joined: another operator there fails at once, in any test."""
    return any(
        isinstance(part, ast.JoinedStr | ast.List | ast.Tuple)
        or (isinstance(part, ast.Constant) and isinstance(part.value, str | bytes))
        for part in operands
    )


def _places(tree: ast.Module) -> Iterator[tuple[ast.expr | ast.stmt, str, int]]:
    """Each expression and statement that may be changed, with the function it stands in and its statement's line."""
    waiting: list[tuple[ast.AST, str, int]] = [(tree, "", 1)]
    while waiting:
        node, function, first = waiting.pop()
        first = node.lineno if isinstance(node, ast.stmt) else first
        if isinstance(node, ast.expr | ast.stmt) and not isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node, function or "(module)", first
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            function = f"{function}.{node.name}".strip(".")
        waiting += [(child, function, first) for child in _children(node)]


def _children(node: ast.AST) -> list[ast.AST]:
    """What lies directly in a node and is behaviour."""
    found = list(ast.iter_child_nodes(node))
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            defaults = [value for value in (*node.args.defaults, *node.args.kw_defaults) if value is not None]
            found = [] if name in _SILENT else [*node.body, *defaults]
        case ast.ClassDef():
            found = list(node.body)
        case ast.AnnAssign(annotation=annotation):
            found.remove(annotation)
        case ast.Subscript(slice=ast.Constant()):  # which field of a tuple it is; another one is noticed at once
            found.remove(node.slice)
        case ast.Raise() | ast.JoinedStr() | ast.If(ast.Name("TYPE_CHECKING")) | ast.Expr(ast.Constant()):
            found = []
    return found
