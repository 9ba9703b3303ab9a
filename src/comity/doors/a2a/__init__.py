"""A2A and the envelope's own dialect over HTTP."""
