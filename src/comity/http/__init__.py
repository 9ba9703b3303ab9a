"""The HTTP door: one guard in front of every route, then the routes."""
