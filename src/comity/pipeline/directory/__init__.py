"""The directory: who offers what, proven by signatures; and what is known of their work."""
