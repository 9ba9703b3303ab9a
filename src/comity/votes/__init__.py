"""Deliberations between nodes: their stored logs, the node that keeps one, and the parties that take part in it."""
