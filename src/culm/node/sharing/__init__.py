"""How a node shares itself out between its peers: turns, rates, memory, places, penalties."""
