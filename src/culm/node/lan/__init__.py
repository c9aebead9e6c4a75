"""Neighbours: nodes of the same clump on the same network find each other, and nobody types an address.

``neighbours`` is the list of those whose announcements hold, without I/O. ``multicast`` speaks mDNS. ``finding`` puts
both beside a node: it announces the node, and calls who was found.

Specification: docs/specs/neighbours.md.
"""
