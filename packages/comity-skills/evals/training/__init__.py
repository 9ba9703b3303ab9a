"""Fits the second opinion of the crisis detector to texts, measures it, and writes `crisis/opinion.json`."""
