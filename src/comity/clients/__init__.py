"""Outgoing connections: one guarded client per protocol."""
