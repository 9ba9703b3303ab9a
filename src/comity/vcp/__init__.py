"""VCP sessions: what stands behind the handshake, whichever door it came through."""
