"""The outside door: the listener of a node for other machines."""
