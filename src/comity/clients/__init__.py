"""How we go out: one guarded client per protocol."""
