"""Point-2-Point by proposals in a node: the session, and what it proposes to a peer."""
