"""The VCP handshake: hello, ack and error, sessions, context requests, and the machines of both sides."""
