"""What a receipt is, and whether it is true: from its bytes and the public keys in it alone."""
