"""The node: asyncio around the protocols, and what an operator decides."""
