"""``culm view rebuild``: the rows of an application's view, made anew from the entries of the home.

The view is the application's code, so the command imports it, by the name of its module or from a file. It is the
property that views keep, as a command: the rows are the same before and after. If they are not, ``View.apply`` depends
on something besides the entries (a clock, randomness, another file), and other nodes have other rows.
"""

import argparse
import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING

from culm.cli.command import Commands
from culm.cli.output import counted, note, print_result
from culm.errors import ConfigError
from culm.node.home import Home

if TYPE_CHECKING:
    from culm.views import View

_MODULE_NAME = "_culm_view"  # Of a module that comes from a file; it must not be the name of a real one.


def register(commands: Commands) -> None:
    """Add the commands of this module."""
    rebuild = commands.add("view rebuild", _rebuild)
    rebuild.add_argument(
        "view", metavar="MODULE:NAME", help="the View: a module, or a file that ends with .py, and the name in it"
    )
    rebuild.add_argument("file", metavar="FILE", help="the view's database; made if it does not exist")


def _rebuild(arguments: argparse.Namespace) -> int:
    from culm.views import ViewFile  # noqa: PLC0415 - brings the library, with asyncio, which other commands do without

    view, path = _imported(arguments.view), Path(arguments.file)
    with Home.find(arguments.home).store(read_only=True) as store:
        is_new = not path.exists()
        with ViewFile(path, view, store) as file:
            if not is_new:
                file.update()
            before = file.dump()
            changes = file.rebuild()
            after = file.dump()
    differ = [] if is_new else sorted(name for name in after if before.get(name) != after[name])
    shown = {
        "applied": changes.applied,
        "rejected": len(changes.rejected),
        "waiting": changes.waiting,
        "rows": {name: len(rows) for name, rows in after.items()},
        "differ": differ,
    }
    print_result(
        arguments,
        shown,
        f"made {counted(sum(map(len, after.values())), 'row')} of {counted(changes.applied, 'entry')};"
        f" {len(changes.rejected)} rejected, {changes.waiting} waiting for entries that they refer to",
    )
    if differ:
        names = ", ".join(differ)
        note(f"the rows of {names} are not those from before: the view depends on something besides the entries")
    return 1 if differ else 0


def _imported(name: str) -> "View":
    """The view that ``MODULE:NAME`` names; ``ConfigError`` if there is none."""
    from culm.views import View  # noqa: PLC0415 - as above

    module_name, _, attribute = name.rpartition(":")
    if not module_name or not attribute:
        raise ConfigError(f"{name!r} is not MODULE:NAME, such as todo.py:TODO")
    try:
        module = _from_file(Path(module_name)) if module_name.endswith(".py") else _from_path(module_name)
        found = getattr(module, attribute)
    except (ImportError, OSError, SyntaxError) as error:
        raise ConfigError(f"cannot import {module_name}: {error}") from None
    except AttributeError:
        raise ConfigError(f"{module_name} has no {attribute}") from None
    if not isinstance(found, View):
        raise ConfigError(f"{attribute} of {module_name} is not a culm.views.View")
    return found


def _from_path(name: str) -> object:
    """A module by its name, of the present folder, too, as with ``python -m``."""
    sys.path.insert(0, "")
    try:
        return import_module(name)
    finally:
        sys.path.remove("")


def _from_file(path: Path) -> object:
    spec = spec_from_file_location(_MODULE_NAME, path)
    if spec is None or spec.loader is None:
        raise ImportError("it is not a file of Python")
    module = module_from_spec(spec)
    sys.modules[_MODULE_NAME] = module  # Dataclasses look their module up.
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[_MODULE_NAME]
    return module
