"""``culm://`` in a node: one encrypted session that finds out what differs, and fetches it."""
