"""What must survive: one Store protocol, engines memory and sqlite; the audit log and the vault stand on it."""
