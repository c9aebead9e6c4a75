"""Benchmarks: each figure stands beside its limit or a peer, measured in the same run.

Machines differ and this one may be noisy. So what counts is the ratio; it is taken from several rounds in which both
sides take turns, and the median is reported.
"""
