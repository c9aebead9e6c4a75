"""A simulated network, clock, disk and threads, for tests with whole nodes in one process and without waiting.

- ``loop``: an event loop whose time jumps to whatever is due next, so that an hour takes as long as its work;
- ``network``, ``pipe``, ``transport``: connections that are slow, stall, break at any byte, or are half open;
- ``host``, ``disk``: machines with threads that take their time, and disks that are full or fail.

Randomness comes from a ``random.Random`` that you pass in. With the same seed, and ``PYTHONHASHSEED`` set because the
order of sets depends on it, a run comes out the same every time.
"""
