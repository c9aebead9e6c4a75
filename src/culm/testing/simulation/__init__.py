"""Whole nodes in one process, on a simulated network and clock, everything drawn from one seed."""
