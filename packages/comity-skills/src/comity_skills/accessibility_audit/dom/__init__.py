"""The page as a tree: what was parsed, where a node is, what is shown and what takes focus."""
