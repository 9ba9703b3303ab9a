"""How the world comes in. A door turns its own dialect into the walk and back; it decides nothing."""
