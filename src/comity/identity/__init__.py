"""Where secrets live: key files, passphrases, the keyring of the operating system, generated tokens."""
