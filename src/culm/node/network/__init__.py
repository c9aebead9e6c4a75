"""Making connections: addresses, TCP, TLS, and when to try again after a failure."""
