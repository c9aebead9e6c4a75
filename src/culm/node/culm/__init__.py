"""``culm://`` in a node: one encrypted session that finds out which logs differ, and fetches what is missing."""
