"""Answering signed envelopes: the order of checks, one queue for each pair, the stored replies."""
