"""The VCP extensions on a node: their state in the vault, their operations through the walk, their MCP tools."""
