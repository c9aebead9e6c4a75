"""How a node shares itself out between its peers: computing turns, bandwidth, memory, connection slots, penalties."""
