"""Bytes to messages and back: framing, strict JSON, the canonical byte forms, JSON-RPC."""
