"""What a damaged row makes of the program: errors of Python, in place of which the damage is told.

What stands in the database is used as it is: looking at every value would cost more than the errors are worth. Where
something is of a kind or size that it cannot have, anything may be raised; then, and only then, all tables and indexes
are looked at, and ``StoreDamaged`` is raised if they are damaged.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from types import FunctionType
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from culm.errors import CulmError, StoreError
from culm.store.kinds import check_indexes, check_kinds

if TYPE_CHECKING:
    from collections.abc import Callable

    from culm.store.database import Database

_T = TypeVar("_T")
_P = ParamSpec("_P")
_ODD = TypeError, ValueError, LookupError, ArithmeticError, AttributeError


@contextmanager
def telling(database: Database) -> Iterator[None]:
    """``StoreDamaged`` for an error that came from damage; any other as it is."""
    try:
        yield
    except _ODD as error:
        _explain(database, error)
        raise


def _explain(database: Database, error: Exception) -> None:
    if isinstance(error, CulmError):
        return
    try:
        check_kinds(database)
        check_indexes(database)
    except StoreError as damage:
        raise damage from error


def tells_damage(kind: type[_T]) -> type[_T]:
    """A class that has a ``_database``, whose public methods, and the iterators they return, tell damage so."""
    for name, function in list(vars(kind).items()):
        if isinstance(function, FunctionType) and not name.startswith("_"):
            setattr(kind, name, _telling(function))
    return kind


def _telling(function: Callable[_P, _T]) -> Callable[_P, _T]:
    @wraps(function)
    def told(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        database: Database = args[0]._database  # type: ignore[attr-defined]  # noqa: SLF001 - of the class's own
        try:
            result = function(*args, **kwargs)
        except _ODD as error:
            _explain(database, error)
            raise
        return _each(database, result) if isinstance(result, Iterator) else result  # type: ignore[return-value]

    return told


def _each(database: Database, items: Iterator[_T]) -> Iterator[_T]:
    with telling(database):
        yield from items
