"""What somebody new meets first: where one is, and what Culm does."""
