"""Names of types that several packages share, so that each is defined once and means the same everywhere."""

from typing import TypeAlias

Log: TypeAlias = tuple[bytes, int]
"""Names a log: its author's public key (32 bytes) and the log id (an unsigned 64-bit integer)."""

Run: TypeAlias = tuple[int, int]
"""The first and the last of neighbouring sequence numbers."""

Buffer: TypeAlias = bytes | bytearray | memoryview
"""Bytes as a reader takes them. Slices of a ``memoryview`` are no copies, which large messages rely on."""
