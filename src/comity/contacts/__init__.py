"""People: who is known by which name, and what each may do."""
