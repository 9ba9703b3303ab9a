"""The walk that every message takes: rate, who, admit, handle, seal; and the record, through which state is changed."""
