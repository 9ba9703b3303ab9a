"""What all commands print and read."""
