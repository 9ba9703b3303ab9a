"""The VCP handshake: hello, ack and error, what is agreed on, and the machines of both sides."""
