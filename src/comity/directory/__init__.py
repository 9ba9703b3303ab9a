"""The directory: signed cards that say what agents offer, and reviews of their work."""
