"""Notifications between the parts of a node: the Bus protocol and its in-process implementation."""
