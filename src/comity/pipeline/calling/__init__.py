"""Agents of other owners, found and called for a client of this node: the room, its tools and its prompts."""
