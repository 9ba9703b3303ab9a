"""The rules of contacts: names, rights, and what unknown callers may do."""
