"""What other programs use."""
