"""Votes between nodes: their stored logs, their hosts, and the parties that take part."""
