"""Answering signed envelopes: the order of checks, the lanes of the pairs, the stored replies."""
