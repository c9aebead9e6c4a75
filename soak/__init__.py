"""Three nodes for a long time: ``python -m soak``, ``make soak MINUTES=30``.

Real programs (``culm serve``), each with a home of its own, that talk to each other in all protocols, while entries are
published, payloads forgotten, logs followed and given up, and nodes stopped, killed and started again. Memory and file
handles must stay as they are, and in the end all nodes must hold the same.
"""
