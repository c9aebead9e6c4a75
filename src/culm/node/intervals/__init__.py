"""Point-2-Point by intervals in a node: the session, and what it asks a peer for."""
