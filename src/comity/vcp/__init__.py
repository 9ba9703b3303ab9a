"""VCP on a node: sessions, doors, client, identity tokens, MCP tools and resources."""
