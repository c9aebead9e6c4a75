"""Many entries at once: taken apart, hashed and checked by columns, and packed block by block.

Nothing here knows where entries come from, nor how verdicts are made. The costly work is behind few functions, each
from bytes and offsets to columns (``fields``).
"""
