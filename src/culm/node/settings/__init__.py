"""``culm.toml``: the configuration of a node, from one schema.

``schema`` has every key with its kind, its default and its meaning, and makes the commented example and the tables of
the docs from them. ``reading`` checks a file against it, and the command line makes options of it. So a key that is
added there is read, checked and documented at once.
"""
