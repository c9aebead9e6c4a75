"""Fuzzing: every decoder, and the documented outcomes only."""
