"""The official conformance suite of MCP against a server of fixtures that is built with our toolkit only."""
