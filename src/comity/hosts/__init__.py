"""Registering Comity with MCP clients, and removing the registration.

`clients.toml` says where each client has its servers and what an entry looks like.
"""
