"""The command line. Each command imports only what it runs."""
