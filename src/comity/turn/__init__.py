"""A TURN relay: it passes the packets of peers on that cannot reach each other (RFC 8656)."""
