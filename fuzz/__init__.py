"""Fuzzing: every place that reads foreign bytes, and its documented outcomes only.

``fuzz.target`` says what a target is; the modules of ``fuzz.topics`` hold them; ``fuzz.run`` feeds them.
"""
