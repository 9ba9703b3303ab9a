"""Who somebody is: Ed25519 keys, the ids made of them, and the tokens by which others vouch for somebody."""
