"""What keeps the house safe: rate limit, injection scan, the rule of the audit chain."""
