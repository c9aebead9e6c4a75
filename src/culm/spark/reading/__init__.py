"""Inputs: what files, stores and tables there are, how they are cut into tasks, and how a task reads its piece.

The driver looks (``inputs``) and never holds an entry; the workers read (``scan``, ``entries``).
"""
