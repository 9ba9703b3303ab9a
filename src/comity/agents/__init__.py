"""What answers a call: a behaviour takes a message and returns one."""
