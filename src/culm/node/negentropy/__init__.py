"""Comparing stores by negentropy over a stream."""
