"""From entries to verdicts, proofs of forks and states: what is true of logs that lie in many places.

``verify`` explains how, and puts the steps together, also on top of a ``state``. ``job`` runs them from paths to
folders of results.
"""
