"""Bushbaby in a node: the session, what it announces, asks for and serves."""
