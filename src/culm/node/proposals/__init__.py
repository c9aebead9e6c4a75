"""Point-2-Point by proposals in a node: the session, and the proposer that says what to propose and to answer."""
