"""Changing a few words of somebody's text without changing what it says."""
