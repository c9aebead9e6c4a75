"""How long tests wait for what must come."""

PATIENCE = 60.0
"""Seconds until a test gives up: how long a failure takes on a busy machine, not how quick anything has to be."""
