"""Server-side transports (doors). A door decodes requests for the walk and encodes the replies; it makes no decisions."""
