"""``culm.toml``: the configuration of a node, from one schema.

``schema`` has every key with its kind, its default and its meaning. ``reading`` checks a file against it, and ``pages``
makes the commented example and the table of the docs from it. So a key that is added there is read, checked and
documented at once.
"""

from culm.node.settings.pages import example, tables
from culm.node.settings.reading import Settings, load
from culm.node.settings.schema import SECTIONS, Key, Section

__all__ = ["SECTIONS", "Key", "Section", "Settings", "example", "load", "tables"]
