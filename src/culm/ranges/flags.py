"""The flags byte of an encoded range (docs/specs/ranges.md, "Encoding"). Every flag is a restriction.

It is a module of its own because ``Range`` writes itself and ``culm.ranges.encoding`` reads: both need the flags, and
neither should need the other for that.
"""

CLOSED, ONE, SPARSE, NOMETA, CERT, NOPAY, SIZE, FORB = (1 << bit for bit in range(7, -1, -1))
NOTHING = 0xFF
