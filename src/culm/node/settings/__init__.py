"""``culm.toml``: what a node is told, from one schema.

``schema`` has every key with its kind, its default and what it means; ``reading`` checks a file against it; ``pages``
makes the commented example and the table of the docs from it.
"""

from culm.node.settings.pages import example, tables
from culm.node.settings.reading import Settings, load
from culm.node.settings.schema import SECTIONS, Key, Section

__all__ = ["SECTIONS", "Key", "Section", "Settings", "example", "load", "tables"]
