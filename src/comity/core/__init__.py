"""Pure protocol: no sockets, no files, no clock, no randomness, no asyncio. Imports nothing of ours outside itself."""
