"""MCP behind its doors: running calls, questions to the client, subscriptions, tasks and sessions."""
