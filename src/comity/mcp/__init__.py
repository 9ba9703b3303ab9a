"""What is offered over MCP."""
