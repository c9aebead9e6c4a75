"""Connections: addresses, TCP, TLS, and when to try again."""
