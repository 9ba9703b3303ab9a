"""Peers: the profiles of the `vdo_*` tools, and what a session demands of those who join it."""
