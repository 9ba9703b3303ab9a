"""MCP, both eras: revisions, the catalogue of what is offered, and the machine of one conversation."""
