"""Bushbaby in a node: the session, and what it announces, asks for, takes in and serves."""
