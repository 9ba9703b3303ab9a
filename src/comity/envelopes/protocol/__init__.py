"""Signed envelopes: what is signed, how it travels, and the chain that makes replay visible."""
