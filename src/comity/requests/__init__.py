"""The pipeline of every message (rate, identify, admit, handle, seal), and the record, through which state changes."""
