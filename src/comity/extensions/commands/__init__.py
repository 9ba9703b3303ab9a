"""Commands of this feature."""
