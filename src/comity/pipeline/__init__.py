"""The walk that every message takes: rate, who, admit, handle, seal. The only place that opens transactions."""
