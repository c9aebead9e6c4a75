"""The store as a node uses it: its thread, what peers may see of it, its upkeep."""
