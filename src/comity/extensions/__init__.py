"""The VCP extensions on a node: their encrypted state, their operations and their MCP tools."""
