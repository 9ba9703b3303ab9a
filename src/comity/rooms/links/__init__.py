"""How two peers are joined: one PeerLink protocol; loopback here, other carriers beside it."""
