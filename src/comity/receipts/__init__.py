"""Proof of what was said, for people who trust neither side: receipts, and their verification without a node."""
