"""Point-2-Point by intervals in a node: the session, and the follower that says what to ask a peer for."""
