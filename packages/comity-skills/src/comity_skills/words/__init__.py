"""Whole words with their places: what the design and culture skills look for in a text."""
