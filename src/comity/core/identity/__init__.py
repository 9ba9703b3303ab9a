"""Who somebody is: Ed25519 keys and the ids made of them."""
