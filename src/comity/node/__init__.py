"""The node itself."""
