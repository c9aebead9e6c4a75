"""Verifying entries while they arrive: a table of verdicts that is always up to date, a feed of changes, and forks.

A verdict is never final. A late entry may give a thousand others their path to entry 1, or prove a fork below them. The
simple way to follow a stream is to keep each log in Spark's state and to look at each new entry there. But then every
entry costs several calls between Python and Java, and the state can be read by nobody else (``docs/decisions`` has the
measurement). So each micro-batch of a stream is one more run on top of a state (``verification.state``), which is made
for late entries, and which reports and ``culm spark verify`` read, too.

A batch passes through these steps, and may be killed between any two of them::

    1  entries are packed, and verified on top of the state        STATE/NUMBER/...
    2  the state is committed; its manifest names the batch        STATE/manifest.json
    3  changes and forks go to the output, the mark last           ``delivery``
    4  Spark notes that the batch is done                          STATE/checkpoint

Spark repeats a batch that it has no note of. If the manifest names that batch, steps 1 and 2 are left out. The changes
lie in the state until they are delivered, and the output has the mark of the last run whose changes it has; so step 3
knows what is missing, and repeats nothing.
"""
