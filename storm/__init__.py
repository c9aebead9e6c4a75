"""Storms: whole nodes on a simulated network, clock and disk, with everything that happens drawn from one seed.

The simulation itself is ``culm.testing.simulation``, which applications may use for their own tests. Here is what only
Culm's own tests need: plans, people's actions, and the watcher that compares each store with what was signed.
"""
