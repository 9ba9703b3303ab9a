"""Sessions in rooms: the machines of `core/peering` on real links, disks, timers and the store."""
