"""The doors of VCP: WebSocket and TCP, two ways to one service."""
