"""What must be heard: one Bus protocol; in-process here, other carriers beside it."""
