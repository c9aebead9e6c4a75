"""``negentropy://`` in a node: answering callers that compare their records with ours, and comparing ourselves."""
