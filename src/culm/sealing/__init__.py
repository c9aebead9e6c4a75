"""Sealed payloads: files in the age format, which only their readers can open (docs/specs/sealed.md).

A log is public to every node that has it. To write something that only some people can read, an author seals the
payload: ``age`` encrypts it for a list of keys, and the entry is signed over the result. To all nodes that pass it on,
a sealed payload is bytes like any others. So they need neither this package nor ``pyrage``, which does the cryptography
and comes with the extra ``culm[sealed]``. It is imported when something is sealed or opened, and not before.

The modules, each importing only those above it::

    mark       whether a payload is a sealed one
    header     for how many readers it is, within fixed limits, before a key is tried
    readers    names of readers and keys, as age takes them
    pump       a library that pushes bytes, made into an iterator
    age        sealing and opening
    groups     lists of readers, in a log of their own
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from culm.sealing.age import Sealer, opened
    from culm.sealing.groups import Group, newest_group, readers_of
    from culm.sealing.header import MAX_READERS
    from culm.sealing.mark import is_sealed
    from culm.sealing.readers import Keyring, reader_of

__all__ = [
    "MAX_READERS",
    "Group",
    "Keyring",
    "Sealer",
    "is_sealed",
    "newest_group",
    "opened",
    "reader_of",
    "readers_of",
]
# Each name is imported at its first use, because commands look at ``mark`` alone when nothing is sealed.
_MODULES = {
    "age": ("Sealer", "opened"),
    "groups": ("Group", "newest_group", "readers_of"),
    "header": ("MAX_READERS",),
    "mark": ("is_sealed",),
    "readers": ("Keyring", "reader_of"),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"culm.sealing.{_HOMES[name]}"), name)
