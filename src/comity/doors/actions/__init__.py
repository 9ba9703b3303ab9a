"""How actions are called: lines or JSON-RPC on stdin and stdout, and HTTP for the owner of the node."""
